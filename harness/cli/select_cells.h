#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/capabilities.h"
#include "harness/train/scenario.h"
#include "reports/record/cell.h"

namespace lockstep {

/// What becomes of the collectives that ranks call.
///   off     nothing: the backend is called as it is
///   log     each is noted in the rank's log
///   check   and held against what the other ranks of the machine called, before it is made
enum class Collectives { off, log, check };

template <>
struct Names<Collectives> {
  static constexpr std::array<std::string_view, 3> values{"off", "log", "check"};
};

/// What `run` was asked for.
struct Selection {
  std::vector<std::string> names;  ///< "scenario" or "scenario/variant"; empty: all
  std::vector<int> world_sizes{2};
  std::optional<std::int64_t> steps;  ///< absent: the scenario's
  std::uint64_t seed = 0;
  std::vector<AxisValue> axes;
  std::string backend = "gloo";
  std::optional<std::string> device;  ///< absent: the standard one of each scenario; nccl: cuda
  /// The GPUs of this machine; cells on cuda cannot be run without.
  std::optional<Capability> gpus;
  bool matrix = false;  ///< every value of the axes that `axes` does not set
  /// Of one scenario in one world: beyond it, a matrix takes pairs of values only.
  std::size_t max_cells = 1'000;
  int repetitions = 1;
  Collectives collectives = Collectives::log;
};

/// A cell that is to be run, or that cannot be.
struct PlannedCell {
  const Scenario* scenario = nullptr;
  const Variant* variant = nullptr;
  Cell cell;
  std::vector<Claim> claims;
  Expectation expectation;
  Collectives collectives = Collectives::log;
};

struct Plan {
  std::vector<PlannedCell> cells;
  std::vector<std::string> notes;  ///< which part of a matrix it is
};

/// The cells of a selection: scenario by scenario, world size by world size, variants in their
/// order, references last; all of them again for every repetition. The reference of a variant comes
/// along, with the axis values that it depends on. A world size or device that a scenario does not
/// support gives cells that are not applicable, and so do too few GPUs; one is enough for a cell of
/// two devices, which has the CPU as the other. Over nccl every rank needs a GPU. A reference is
/// one process without a group: it is the same cell over every backend. Throws Error (usage) for a
/// name, axis or value that does not exist, and when even the pairs of a scenario's matrix take
/// more than `max_cells`.
Plan select_cells(const std::vector<Scenario>& scenarios, const Selection& selection);

/// Whether a scenario that was asked for trains on GPUs here, so that `gpus` matters. Throws as
/// `select_cells` does for a name that does not exist.
bool needs_gpus(const std::vector<Scenario>& scenarios, const Selection& selection);

/// The cell of the reference that `cell` is compared with; nothing when there is none.
std::optional<Cell> reference_cell(const Scenario& scenario, const Variant& variant,
                                   const Cell& cell);

/// Folder of a cell of `scenario` inside a run's. The scenario's standard device and axes at their
/// standard value are left out, so that it stays the same when the scenario gets another axis.
std::string folder_of(const Scenario& scenario, const Cell& cell);

/// The scenario called `id`. Throws Error (usage) with the nearest name.
const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id);

/// What behind the name of this program runs the cell alone, by its own ranks: "run",
/// "scenario/variant", "--ranks", "2", ...
std::vector<std::string> arguments_of(const PlannedCell& planned);

/// "lockstep run scenario/variant --ranks 2 ...": the command of this program that runs the cell
/// alone. `launcher`: what `--launcher` was given; empty: nothing.
std::string reproducing_command(const PlannedCell& planned, const std::string& launcher = {});

}  // namespace lockstep
