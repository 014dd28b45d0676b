#pragma once

#include <string>
#include <vector>

#include "harness/plan/selection.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

/// A cell that is to be run, or that cannot be.
struct PlannedCell {
  const Scenario* scenario = nullptr;
  const Variant* variant = nullptr;
  Cell cell;
  std::vector<Claim> claims;
  Expectation expectation;
};

struct Plan {
  std::vector<PlannedCell> cells;
  std::vector<std::string> notes;  ///< which part of a matrix it is
};

}  // namespace lockstep
