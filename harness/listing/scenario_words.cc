#include "harness/listing/scenario_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace lockstep {

std::string class_of(const Scenario& scenario) {
  return std::filesystem::path(scenario.source).parent_path().filename().string();
}

std::string worlds_in_short(const Scenario& scenario) {
  const std::vector<int>& worlds = scenario.worlds;
  const bool is_range = worlds.size() > 2 && worlds == worlds_from(worlds.front(), worlds.back());
  return is_range ? fmt::format("{}-{}", worlds.front(), worlds.back())
                  : fmt::format("{}", fmt::join(worlds, ","));
}

std::string axes_in_short(const Scenario& scenario, const Variant& variant) {
  const std::vector<const Axis*> used = axes_of(scenario, variant);
  std::vector<std::string> with;
  std::vector<std::string> without;
  for (const Axis& axis : scenario.axes) {
    const bool is_used = std::find(used.begin(), used.end(), &axis) != used.end();
    (is_used ? with : without).push_back(axis.name);
  }
  if (with.empty()) return "none";
  if (without.empty()) return "all";
  return without.size() < with.size() ? fmt::format("all but {}", fmt::join(without, ", "))
                                      : fmt::format("{}", fmt::join(with, ", "));
}

Expectation default_expectation(const Scenario& scenario, const Variant& variant) {
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
  return declared_expectation(scenario, cell);
}

}  // namespace lockstep
