#pragma once

#include <vector>

#include "harness/judge/collectives/analyse_collectives.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// What is found of a cell once, before any claim is judged. Points into the case.
struct CellFacts {
  CollectiveAnalysis analysis;
  /// The ranks that ended badly, by rank, without those whose end is a consequence of another's.
  std::vector<const RankExit*> culprits;
  std::vector<const RankExit*> unexplained;  ///< culprits that no mismatch ended
  bool all_finished = true;                  ///< every rank came to its end
};

CellFacts facts_of(const CellEvidence& cell);

}  // namespace lockstep
