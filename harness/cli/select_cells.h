#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/train/scenario.h"
#include "reports/cell.h"

namespace lockstep {

/// What `run` was asked for.
struct Selection {
  std::vector<std::string> names;  ///< "scenario" or "scenario/variant"; empty: all
  std::vector<int> world_sizes{2};
  std::optional<std::int64_t> steps;  ///< absent: the scenario's
  std::uint64_t seed = 0;
  std::vector<AxisValue> axes;
};

/// A cell that is to be run, or that cannot be.
struct PlannedCell {
  const Scenario* scenario = nullptr;
  const Variant* variant = nullptr;
  Cell cell;
  std::vector<Claim> claims;
  Expectation expectation;
};

/// The cells of a selection: scenario by scenario, world size by world size, variants in their
/// order. The reference of a scenario comes along when any of its variants is asked for. A world
/// size that a scenario does not support gives cells that are not applicable. Throws Error (usage)
/// for a name, axis or value that does not exist.
std::vector<PlannedCell> select_cells(const std::vector<Scenario>& scenarios,
                                      const Selection& selection);

/// The scenario called `id`. Throws Error (usage) with the nearest name.
const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id);

/// "lockstep run scenario/variant --ranks 2 ...": the command that runs this cell alone.
std::string reproducing_command(const PlannedCell& planned);

}  // namespace lockstep
