// A program without observations must not be reported as in lockstep.

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

Scenario observes_nothing() {
  return {
      .summary = "Claims without observations.",
      .variants = {{"blind", Role::fixed, "observes nothing"}},
      .worlds = {2},
      .axes = {},
      .claims = {kGradientsAgree, ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body =
          [](Rank& rank) {
            rank.train([&](std::int64_t) {
              if (rank.is("blind")) rank.at_branch();
            });
          },
  };
}

}  // namespace lockstep
