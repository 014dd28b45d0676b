#pragma once

#include <set>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Parameters of a watched job that may be no copies of each other: before the first observed step
/// ranks hold different values of them, and in that step no gradient or different ones. Either they
/// were initialised differently and never synchronised, or each rank holds its own shard without
/// saying so. Whole tensors of another dtype are no shards, and are left out. Ascending. Empty for
/// a cell, whose tensors say what they are.
std::set<std::string> unshared_tensors(const CellEvidence& cell);

/// "weight and 3 more differ between ranks before the first step, ..." about `cell.unshared`;
/// empty: there is none.
std::string unshared_in_words(const CellEvidence& cell);

}  // namespace lockstep
