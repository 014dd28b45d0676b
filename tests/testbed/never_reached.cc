// Every value is right and no rank reaches the branch point, so the variant was not exercised.

#include <ATen/ops/ones.h>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

Scenario never_reached() {
  return {
      .summary = "A variant that is not declared to be missed, and is.",
      .variants = {{"behind-a-gate", Role::fixed, "nobody asks for it"},
                   {"in-the-open", Role::fixed, "the same, and one rank asks for it"},
                   {"forgotten", Role::fixed,
                    "the branch point is reached, and no rank asks for it"}},
      .worlds = {2, 3, 4},
      .steps = 2,
      .axes = {},
      .claims = {kGradientsAgree, ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body =
          [](Rank& rank) {
            rank.train([&](std::int64_t) {
              if (rank.rank() == 1 && !rank.is("behind-a-gate")) rank.at_branch();
              static_cast<void>(rank.is("in-the-open"));
              rank.observer().observe(Phase::pre_step, Kind::gradient, {"w", at::ones({2})});
            });
          },
  };
}

}  // namespace lockstep
