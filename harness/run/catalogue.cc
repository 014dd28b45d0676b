#include "harness/run/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep {

namespace {

std::size_t widest_name(const Scenario& scenario) {
  std::size_t width = 0;
  for (const Variant& variant : scenario.variants) width = std::max(width, variant.name.size());
  return width;
}

std::string variants_as_text(const Scenario& scenario) {
  std::string text;
  for (const Variant& variant : scenario.variants) {
    text += fmt::format("    {:<{}}  {:<9}  {}\n", variant.name, widest_name(scenario),
                        name(variant.role), variant.summary);
  }
  return text;
}

std::string axes_as_text(const Scenario& scenario) {
  std::string text;
  for (const Axis& axis : scenario.axes) {
    text += fmt::format("    {}: {} (default: {})", axis.name, fmt::join(axis.values, ", "),
                        axis.default_value);
    if (!axis.variants.empty()) text += fmt::format("; of {}", fmt::join(axis.variants, ", "));
    text += "\n";
  }
  return text;
}

/// "buggy: a, b; fixed: c"; references are omitted because they cannot show a bug.
std::string variants_by_role(const Scenario& scenario) {
  std::vector<std::string> parts;
  for (const Role role : {Role::buggy, Role::latent, Role::fixed, Role::wrong_fix}) {
    std::vector<std::string> names;
    for (const Variant& variant : scenario.variants) {
      if (variant.role == role) names.push_back(variant.name);
    }
    if (names.empty()) continue;
    parts.push_back(fmt::format("{}: {}", name(role), fmt::join(names, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

bool is_on_cpu_only(const Scenario& scenario) {
  return scenario.devices == std::vector<std::string>{"cpu"};
}

/// "2 to 16"; "2 to 16 on cpu, sim or cuda" if other devices than the CPU are supported.
std::string worlds_and_devices(const Scenario& scenario) {
  std::string text = worlds_in_words(scenario);
  if (is_on_cpu_only(scenario)) return text;
  const auto& devices = scenario.devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += (i == 0 ? " on " : i + 1 == devices.size() ? " or " : ", ") + devices[i];
  }
  return text;
}

/// A line; empty for the CPU alone.
std::string devices_as_text(const Scenario& scenario) {
  if (is_on_cpu_only(scenario)) return "";
  return fmt::format("  Devices: {} (default: {})\n", fmt::join(scenario.devices, ", "),
                     scenario.devices.front());
}

Cell default_cell(const Scenario& scenario, const Variant& variant) {
  Cell cell;
  cell.scenario = scenario.id;
  cell.variant = variant.name;
  cell.role = variant.role;
  cell.world_size = scenario.worlds.front();
  cell.device = scenario.devices.front();
  cell.steps = scenario.steps;
  for (const Axis* axis : axes_of(scenario, variant)) {
    cell.axes.push_back({axis->name, axis->default_value, true});
  }
  cell.sets = settings_of(scenario, variant);
  return cell;
}

std::string promises_as_text(const Expectation& expectation) {
  std::string text;
  for (const Claim& claim : expectation.breaks) text += "        breaks: " + sentence(claim) + "\n";
  for (const ExpectedError& error : expectation.raises) {
    text += "        raises: " + error.fragment + "\n";
  }
  if (expectation.not_triggered) text += "        is not triggered: no claim is decided\n";
  for (const std::string& table : expectation.meets) text += "        meets: " + table + "\n";
  return text.empty() ? "        keeps every claim\n" : text;
}

}  // namespace

std::string list_as_text(const std::vector<Scenario>& scenarios) {
  std::string text;
  for (const Scenario& scenario : scenarios) {
    text += fmt::format("{}\n  {}\n  World sizes {}. Variants:\n{}", scenario.id, scenario.summary,
                        worlds_and_devices(scenario), variants_as_text(scenario));
  }
  return text;
}

std::string list_as_markdown(const std::vector<Scenario>& scenarios) {
  std::string text = "| scenario | what goes wrong | variants | world sizes |\n|---|---|---|---|\n";
  for (const Scenario& scenario : scenarios) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", scenario.id, scenario.summary,
                        variants_by_role(scenario), worlds_and_devices(scenario));
  }
  return text;
}

std::string scenario_sheet(const Scenario& scenario) {
  const Provenance& from = scenario.provenance;
  std::string text = fmt::format(
      "{}\n  {}\n\n  From: {}, {}\n  Kept: {}\n  Left out: {}\n  Source: {}\n  World sizes: {}\n"
      "{}  Steps: {}\n",
      scenario.id, scenario.summary, from.project, from.link, from.kept, from.left_out,
      scenario.source, worlds_in_words(scenario), devices_as_text(scenario), scenario.steps);
  if (!scenario.axes.empty()) text += "\n  Axes\n" + axes_as_text(scenario);
  text += "\n  Claims of a correct program\n";
  for (const Claim& claim : scenario.claims) text += "    " + sentence(claim) + "\n";
  text += fmt::format("\n  Variants, and what is expected of them with {} ranks\n",
                      scenario.worlds.front());
  for (const Variant& variant : scenario.variants) {
    text += fmt::format("    {} ({}): {}\n{}", variant.name, name(variant.role), variant.summary,
                        promises_as_text(declared_expectation(scenario, default_cell(scenario, variant))));
    if (!variant.reference.empty()) {
      text += fmt::format("        compared with: {}\n", variant.reference);
    }
    for (const Claim& claim : variant.claims) {
      text += fmt::format("        claims also: {}\n", sentence(claim));
    }
  }
  return text;
}

}  // namespace lockstep
