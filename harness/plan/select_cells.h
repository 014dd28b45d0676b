#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// The cells of a selection: scenario by scenario, world size by world size, variants in their
/// order, references last; all again for every repetition. A variant's reference comes along, with
/// the axis values that it depends on. Cells are not applicable if the scenario does not support
/// the world size or device, or if there are too few GPUs. A cell of two devices needs one GPU,
/// with the CPU as the other device. Over nccl every rank needs a GPU. A reference is one process
/// without a group, so it is the same cell over every backend. Throws Error (usage) for a name,
/// axis or value that does not exist, and if one cell for each axis value of a scenario's matrix
/// exceeds `max_cells`.
Plan select_cells(const std::vector<Scenario>& scenarios, const Selection& selection);

/// Whether a selected scenario trains on GPUs here, so that `gpus` matters. Throws like
/// `select_cells` for a name that does not exist.
bool needs_gpus(const std::vector<Scenario>& scenarios, const Selection& selection);

/// The reference cell that `cell` is compared with; absent if there is none.
std::optional<Cell> reference_cell(const Scenario& scenario, const Variant& variant,
                                   const Cell& cell);

/// Folder of a cell of `scenario`, relative to that of the run. Omits the scenario's default device
/// and axes at their default value, so that the name stays the same if the scenario gets another
/// axis.
std::string folder_of(const Scenario& scenario, const Cell& cell);

}  // namespace lockstep
