#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// What the collective logs of a case say of the ranks' analysis.
struct CollectiveAnalysis {
  std::int64_t compared = 0;  ///< collectives that all ranks of their group called
  /// The first that they did not meet in; where ranks called different things anywhere, that.
  std::optional<CollectiveMismatch> missed;
  /// Those that ranks did not come out of.
  std::vector<CollectiveMismatch> open;
  /// What ended the cell: of `open`, those that do not wait for ranks of another one, the first in
  /// front; where they wait for each other one names all these ranks.
  std::vector<CollectiveMismatch> blocking;
  /// Why it is not known whether they met although none was missed; empty: it is known.
  std::string doubt;
  /// Where ranks trained until they were ended at their limit, how far they were; empty: they did
  /// not. Nobody is at fault then for what was not yet a hang.
  std::string progress;
};

/// Holds the collectives of all ranks against each other, group by group, in the order of their
/// numbers. Asynchronous calls on different groups may come in any order. A tensor is known by what
/// it is called: where ranks reduce differently called tensors with each other it is a mismatch
/// only if all have both of them, since tied parameters may have different names.
CollectiveAnalysis analyse_collectives(const CellEvidence& cell);

/// Whether it is the fault of the program, which is told rather than who was ended by it.
bool is_program_fault(const CollectiveMismatch& missed);

/// Whether `end` is how a mismatch ended a rank that was in it or waited for it: no
/// fault of its own.
bool is_explained(const CollectiveAnalysis& analysis, const RankExit& end,
                  const CellEvidence& cell);

}  // namespace lockstep
