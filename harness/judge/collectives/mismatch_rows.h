#pragma once

#include <cstdint>
#include <vector>

#include "harness/judge/collectives/group_calls.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// The calls of all ranks in a collective.
CollectiveRow shown_row(const CellEvidence& cell, const Group& group, std::uint64_t number);

/// The calls of all ranks in the collectives around a mismatch, to be shown side by side.
std::vector<CollectiveRow> rows_around(const CellEvidence& cell, const Group& group,
                                       std::uint64_t number);

}  // namespace lockstep
