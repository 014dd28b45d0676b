#pragma once

#include <string>
#include <vector>

#include "reports/record/comparison.h"

namespace lockstep {

/// "B is A times 2: summed over 2 ranks, never averaged; relative difference 0.5, tolerance 3e-05".
std::string size_in_words(const TensorDifference& one);

/// "A times 2: summed over 2 ranks, never averaged", "there is none in B"; empty: its values say
/// it.
std::string cause_in_words(const TensorDifference& one);

/// The first names: "a, b and 3 more".
std::string names_in_words(const std::vector<std::string>& names);

}  // namespace lockstep
