#include "harness/judge/collectives/cell_facts.h"

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

CellFacts facts_of(const CellEvidence& cell) {
  CellFacts facts{
      analyse_collectives(cell), culprits(cell), {}, cell.is_job, all_finished(cell.exits)};
  for (const RankExit* end : facts.culprits) {
    if (!is_explained(facts.analysis, *end, cell)) facts.unexplained.push_back(end);
  }
  const bool is_open = facts.analysis.blocking.empty() && !facts.unexplained.empty();
  if (is_open) facts.leaver = leaver(cell);
  return facts;
}

}  // namespace lockstep
