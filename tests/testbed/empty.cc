// An empty body, to measure the cost of a launch.

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

Scenario empty() {
  return {
      .summary = "Ranks that start and end.",
      .variants = {{"alone", Role::fixed, "no process group"},
                   {"met", Role::fixed, "the ranks meet in a process group"}},
      .worlds = {1, 2, 3, 4, 16, 64},
      .axes = {},
      .claims = {ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body =
          [](Rank& rank) {
            rank.at_branch();
            if (rank.is("alone")) return;
            if (rank.is("met")) rank.group();
          },
  };
}

}  // namespace lockstep
