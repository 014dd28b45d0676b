#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// A scenario whose body is never run. The reference of "bug" and "fix" is "plain". That of "other"
/// is "special", which depends on the same axis as "other".
inline Scenario literal_scenario(std::string id = "bug-class") {
  const Claim agree = agree_across_ranks(Kind::gradient, Phase::pre_step);
  return {
      .id = std::move(id),
      .summary = "A literal one.",
      .origin = {"tests", "none", "nothing", "nothing"},
      .variants = {{"bug", Role::buggy, "the bug"},
                   {"fix", Role::fixed, "the fix"},
                   {.name = "other",
                    .role = Role::wrong_fix,
                    .summary = "beside another reference",
                    .reference = "special",
                    .claims = {agree_across_ranks(Kind::buffer, Phase::pre_forward)}},
                   {"plain", Role::reference, "what the others are compared with"},
                   {"special", Role::reference, "what 'other' is compared with"}},
      .worlds = {2, 4},
      .devices = {DeviceKind::cpu},
      .steps = 3,
      .axes = {{"rate", {"slow", "fast"}, "slow"},
               {"tiles", {"1", "2", "4"}, "2", {"bug"}},
               {"shapes", {"same", "mixed"}, "same", {"other", "special"}}},
      .claims = {agree, ranks_finish()},
      .tables = {},
      .expect =
          [agree](const Cell& cell) {
            Expectation expectation;
            if (cell.role == Role::buggy) expectation.breaks = {agree};
            return expectation;
          },
      .body = [](Rank&) {},
  };
}

}  // namespace lockstep
