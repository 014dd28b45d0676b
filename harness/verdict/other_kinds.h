#pragma once

#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// What the ranks of a job hold of the kinds that no claim is about (`--also`): "buffers agree
/// across ranks before the forward passes, 8 of them", "random states differ between ranks, 1 of 2:
/// torch cpu from step 1 on (ranks 0 and 1 differ)". A sentence per kind. Generators that nothing
/// draws from are left out. They decide nothing (but `buffers_apart`): ranks may draw other
/// numbers, or keep statistics of their own samples.
std::vector<std::string> other_kinds_in_words(const StepReader& evidence);

}  // namespace lockstep
