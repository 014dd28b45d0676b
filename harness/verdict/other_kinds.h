#pragma once

#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// What the ranks of a job hold of the kinds that no claim is about (`--also`): "8 buffers, the
/// same on all ranks", "random states differ between ranks: first in step 1, torch cpu: rank 0 |
/// rank 1". A sentence per kind. They decide nothing: ranks may draw other numbers, or keep
/// statistics of their own samples.
std::vector<std::string> other_kinds_in_words(const StepReader& evidence);

}  // namespace lockstep
