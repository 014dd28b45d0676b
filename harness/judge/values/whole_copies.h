#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// A row of each of some ranks.
using RowsOfRanks = std::map<int, const Observation*>;

/// Rows of a kind at a phase of a step: the last of each rank, by name.
std::map<std::string, RowsOfRanks> last_rows_of(const StepView& step, Kind kind, Phase phase);

/// A whole tensor that parts of some ranks make up.
struct WholeCopy {
  std::vector<int> ranks;  ///< ascending
  Digest digest;
  std::optional<Sketch> sketch = Sketch();  ///< empty: that of a part is not known
};

/// The copies of a tensor like `whole` that ranks hold together, by lowest rank. Where several hold
/// a part, the n-th of them belong to the n-th copy, as the ranks of a mesh do. Empty: parts are
/// missing, or not held by as many, or the value of one is unknown.
std::vector<WholeCopy> whole_copies(const StepView& step, const RowsOfRanks& parts,
                                    const Observation& whole);

}  // namespace lockstep
