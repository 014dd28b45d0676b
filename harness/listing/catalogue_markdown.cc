#include "harness/listing/catalogue_markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "harness/listing/scenario_words.h"

namespace lockstep {

namespace {

/// Escapes '|' and line breaks, which would end a table cell.
std::string in_table(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string axes_table(const Scenario& scenario) {
  if (scenario.axes.empty()) return "";
  std::string text = "\n| axis | values | default |\n|---|---|---|\n";
  for (const Axis& axis : scenario.axes) {
    text += fmt::format("| `{}` | {} | {} |\n", axis.name,
                        in_table(fmt::format("{}", fmt::join(axis.values, ", "))),
                        in_table(axis.default_value));
  }
  return text;
}

std::string variants_table(const Scenario& scenario) {
  const bool has_axes = !scenario.axes.empty();
  std::string text = has_axes ? "\n| variant | role | axes | description |\n|---|---|---|---|\n"
                              : "\n| variant | role | description |\n|---|---|---|\n";
  for (const Variant& variant : scenario.variants) {
    text += fmt::format("| `{}` | {} | {}{} |\n", variant.name, name(variant.role),
                        has_axes ? axes_in_short(scenario, variant) + " | " : "",
                        in_table(variant.summary));
  }
  return text;
}

std::string section_of(const Scenario& scenario) {
  const Origin& origin = scenario.origin;
  return fmt::format(
             "\n### `{}`\n\n{}\n\n- From: {}, {}\n- Kept: {}\n- Left out: {}\n- World sizes: {}\n"
             "- Devices: {}\n- Source: `{}`\n",
             scenario.id, scenario.summary, origin.project, origin.link, origin.kept,
             origin.left_out, worlds_in_words(scenario),
             fmt::join(names_of(scenario.devices), ", "), scenario.source) +
         axes_table(scenario) + variants_table(scenario);
}

}  // namespace

std::string list_as_markdown(const ScenarioList& scenarios) {
  std::string text = "| scenario | fault |\n|---|---|\n";
  for (const Scenario* scenario : scenarios) {
    text += fmt::format("| `{}` | {} |\n", scenario->id, in_table(scenario->summary));
  }
  return text;
}

std::string catalogue_as_markdown(const ScenarioList& scenarios) {
  std::string text =
      "# Catalogue\n\n"
      "Every scenario, by the class of its fault. `ci/catalogue` writes this page; a test compares "
      "it "
      "with the program.\n`lockstep show ID/VARIANT` also shows the expectations of a variant.\n";
  std::string section;
  for (const Scenario* scenario : scenarios) {
    if (class_of(*scenario) != section) {
      section = class_of(*scenario);
      text += fmt::format("\n## {}\n", section);
    }
    text += section_of(*scenario);
  }
  return text;
}

}  // namespace lockstep
