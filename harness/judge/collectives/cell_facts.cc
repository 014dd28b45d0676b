#include "harness/judge/collectives/cell_facts.h"

#include <algorithm>
#include <tuple>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

CellFacts facts_of(const CellEvidence& cell) {
  CellFacts facts;
  facts.analysis = analyse_collectives(cell);
  facts.culprits = culprits(cell);
  facts.exits = &cell.exits;
  facts.is_job = cell.is_job;
  facts.all_finished = all_finished(cell.exits);
  for (const RankExit* end : facts.culprits) {
    if (!is_explained(facts.analysis, *end, cell)) facts.unexplained.push_back(end);
  }
  const bool is_open = facts.analysis.blocking.empty() && !facts.unexplained.empty();
  if (is_open) facts.leaver = leaver(cell);
  return facts;
}

const RankExit* telling_end(const CellFacts& facts) {
  const auto order = [](const RankExit* end) {
    return std::tuple(end->kind != ExitKind::raised, end->step, end->rank);
  };
  const auto first = std::ranges::min_element(facts.unexplained, {}, order);
  return first == facts.unexplained.end() ? nullptr : *first;
}

}  // namespace lockstep
