#pragma once

#include <string>
#include <vector>

#include "harness/plan/selection.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

/// A cell to run, or one that cannot be run.
struct PlannedCell {
  const Scenario* scenario = nullptr;
  const Variant* variant = nullptr;
  Cell cell;
  std::vector<Claim> claims;
  Expectation expectation;
};

struct Plan {
  std::vector<PlannedCell> cells;
  std::vector<std::string> notes;  ///< its part of a matrix
};

}  // namespace lockstep
