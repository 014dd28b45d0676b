#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// A weight as forward passes of a step computed with it, next to what optimizers held then.
struct UsedWeight {
  std::vector<int> others;       ///< ranks that computed with another one, ascending
  std::map<int, Digest> used;    ///< by rank
  std::map<int, Digest> held{};  ///< by rank: of the copy of the whole weight that its part is of
};

/// By name. Only those that are known: where all parts of the weight were observed, in the type
/// that the rank computed with.
std::map<std::string, UsedWeight> used_weights_in(const StepView& step);

}  // namespace lockstep
