#pragma once

#include <vector>

#include "harness/judge/collectives/analyse_collectives.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Facts about a cell that are computed once, before any claim is judged. Points into the cell's
/// evidence.
struct CellFacts {
  CollectiveAnalysis analysis;
  /// The ranks that failed, in rank order, except those whose failure follows from another rank's.
  std::vector<const RankExit*> culprits;
  std::vector<const RankExit*> unexplained;      ///< culprits whose exit no mismatch explains
  const std::vector<RankExit>* exits = nullptr;  ///< of all ranks
  bool is_job = false;
  bool all_finished = true;  ///< every rank finished
  /// The rank that left all culprits alone, if no mismatch says more; else null.
  const RankExit* leaver = nullptr;
};

CellFacts facts_of(const CellEvidence& cell);

/// The most informative culprit without a mismatch: a rank that raised, in the earliest step, with
/// the lowest number. The order in which ranks ended is a matter of chance. Null: there is none.
const RankExit* telling_end(const CellFacts& facts);

}  // namespace lockstep
