#include "harness/judge/collectives/cell_facts.h"

#include "harness/judge/evidence/case.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

CellFacts facts_of(const Case& the_case) {
  CellFacts facts{meetings_of(the_case), culprits(the_case), {}};
  for (const RankEnd* end : facts.culprits) {
    if (!is_explained(facts.meetings, *end, the_case)) facts.unexplained.push_back(end);
  }
  return facts;
}

}  // namespace lockstep
