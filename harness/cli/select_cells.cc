#include "harness/cli/select_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "reports/error.h"

namespace lockstep {

namespace {

std::vector<std::string> ids_of(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> ids;
  for (const Scenario& scenario : scenarios) ids.push_back(scenario.id);
  return ids;
}

/// A scenario with the variants of it that were asked for.
struct Wanted {
  const Scenario* scenario = nullptr;
  std::set<std::string> variants;
};

void want_all(const Scenario& scenario, Wanted& wanted) {
  for (const Variant& variant : scenario.variants) wanted.variants.insert(variant.name);
}

void want_one(const Scenario& scenario, const std::string& name, Wanted& wanted) {
  if (!find_variant(scenario, name)) {
    std::vector<std::string> names;
    for (const Variant& variant : scenario.variants) names.push_back(variant.name);
    throw unknown_name("variant of " + scenario.id, name, names);
  }
  wanted.variants.insert(name);
  if (const Variant* reference = reference_variant(scenario)) {
    wanted.variants.insert(reference->name);
  }
}

std::vector<Wanted> wanted_of(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& names) {
  std::vector<Wanted> all;
  for (const Scenario& scenario : scenarios) {
    all.push_back({&scenario, {}});
    if (names.empty()) want_all(scenario, all.back());
  }
  for (const std::string& name : names) {
    const auto slash = name.find('/');
    const Scenario& scenario = find_scenario(scenarios, slash == 0 ? name : name.substr(0, slash));
    Wanted& wanted = all[static_cast<std::size_t>(&scenario - scenarios.data())];
    if (slash == std::string::npos) {
      want_all(scenario, wanted);
    } else {
      want_one(scenario, name.substr(slash + 1), wanted);
    }
  }
  std::erase_if(all, [](const Wanted& wanted) { return wanted.variants.empty(); });
  return all;
}

const Axis* find_axis(const Scenario& scenario, const std::string& name) {
  const auto found = std::find_if(scenario.axes.begin(), scenario.axes.end(),
                                  [&](const Axis& axis) { return axis.name == name; });
  return found == scenario.axes.end() ? nullptr : &*found;
}

/// Every `--set` must mean something to a scenario that was asked for.
void check_axes(const std::vector<Wanted>& all, const std::vector<AxisValue>& set) {
  for (const auto& [name, value] : set) {
    std::vector<std::string> axes;
    std::vector<std::string> values;
    for (const Wanted& wanted : all) {
      for (const Axis& axis : wanted.scenario->axes) axes.push_back(axis.name);
      const Axis* axis = find_axis(*wanted.scenario, name);
      if (axis) values.insert(values.end(), axis->values.begin(), axis->values.end());
    }
    if (values.empty()) throw unknown_name("axis", name, axes);
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      throw unknown_name("value of axis " + name, value, values);
    }
  }
}

std::vector<AxisValue> axes_of(const Scenario& scenario, const std::vector<AxisValue>& set) {
  std::vector<AxisValue> chosen;
  for (const Axis& axis : scenario.axes) {
    chosen.push_back({axis.name, axis.standard});
    for (const auto& [name, value] : set) {
      if (name == axis.name) chosen.back().value = value;
    }
  }
  return chosen;
}

/// What is claimed of a cell: of the reference only that it runs, for it is what the others are
/// compared with.
std::vector<Claim> claims_of(const Scenario& scenario, const Cell& cell) {
  if (cell.role == Role::reference) return {ranks_finish()};
  return scenario.claims;
}

Expectation expectation_of(const Scenario& scenario, const Cell& cell) {
  const auto& worlds = scenario.worlds;
  if (std::find(worlds.begin(), worlds.end(), cell.world_size) == worlds.end()) {
    Expectation expectation;
    expectation.not_applicable =
        fmt::format("supports world sizes {}, not {}", fmt::join(worlds, ", "), cell.world_size);
    return expectation;
  }
  for (std::size_t i = 0; i < cell.axes.size(); ++i) {
    const Axis& axis = scenario.axes[i];
    if (std::find(axis.values.begin(), axis.values.end(), cell.axes[i].value) ==
        axis.values.end()) {
      Expectation expectation;
      expectation.not_applicable =
          fmt::format("axis {} has no value {}", axis.name, cell.axes[i].value);
      return expectation;
    }
  }
  return scenario.expect(cell);
}

PlannedCell plan(const Wanted& wanted, const Variant& variant, int world_size,
                 const Selection& selection) {
  PlannedCell planned;
  planned.scenario = wanted.scenario;
  planned.variant = &variant;
  Cell& cell = planned.cell;
  cell.scenario = wanted.scenario->id;
  cell.variant = variant.name;
  cell.role = variant.role;
  cell.world_size = world_size;
  cell.axes = axes_of(*wanted.scenario, selection.axes);
  cell.steps = selection.steps.value_or(wanted.scenario->steps);
  cell.seed = selection.seed;
  planned.claims = claims_of(*wanted.scenario, cell);
  planned.expectation = expectation_of(*wanted.scenario, cell);
  return planned;
}

}  // namespace

const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id) {
  for (const Scenario& scenario : scenarios) {
    if (scenario.id == id) return scenario;
  }
  throw unknown_name("scenario", id, ids_of(scenarios));
}

std::vector<PlannedCell> select_cells(const std::vector<Scenario>& scenarios,
                                      const Selection& selection) {
  const std::vector<Wanted> all = wanted_of(scenarios, selection.names);
  check_axes(all, selection.axes);
  std::vector<PlannedCell> cells;
  for (const Wanted& wanted : all) {
    for (const int world_size : selection.world_sizes) {
      for (const Variant& variant : wanted.scenario->variants) {
        if (!wanted.variants.contains(variant.name)) continue;
        cells.push_back(plan(wanted, variant, world_size, selection));
      }
    }
  }
  return cells;
}

std::string reproducing_command(const PlannedCell& planned) {
  const Cell& cell = planned.cell;
  std::string command =
      fmt::format("lockstep run {}/{} --ranks {}", cell.scenario, cell.variant, cell.world_size);
  if (cell.steps != planned.scenario->steps) command += fmt::format(" --steps {}", cell.steps);
  if (cell.seed != 0) command += fmt::format(" --seed {}", cell.seed);
  for (std::size_t i = 0; i < cell.axes.size(); ++i) {
    if (cell.axes[i].value == planned.scenario->axes[i].standard) continue;
    command += fmt::format(" --set {}={}", cell.axes[i].axis, cell.axes[i].value);
  }
  return command;
}

}  // namespace lockstep
