#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// The cells of a selection: scenario by scenario, world size by world size, variants in their
/// order, references last; all of them again for every repetition. The reference of a variant comes
/// along, with the axis values that it depends on. A world size or device that a scenario does not
/// support gives cells that are not applicable, and so do too few GPUs; one is enough for a cell of
/// two devices, which has the CPU as the other. Over nccl every rank needs a GPU. A reference is
/// one process without a group: it is the same cell over every backend. Throws Error (usage) for a
/// name, axis or value that does not exist, and when even one cell for each axis value of a
/// scenario's matrix takes more than `max_cells`.
Plan select_cells(const std::vector<Scenario>& scenarios, const Selection& selection);

/// Whether a scenario that was asked for trains on GPUs here, so that `gpus` matters. Throws as
/// `select_cells` does for a name that does not exist.
bool needs_gpus(const std::vector<Scenario>& scenarios, const Selection& selection);

/// The cell of the reference that `cell` is compared with; nothing when there is none.
std::optional<Cell> reference_cell(const Scenario& scenario, const Variant& variant,
                                   const Cell& cell);

/// Folder of a cell of `scenario` inside a run's. The scenario's default device and axes at their
/// default value are left out, so that it stays the same when the scenario gets another axis.
std::string folder_of(const Scenario& scenario, const Cell& cell);

}  // namespace lockstep
