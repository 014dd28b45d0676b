#pragma once

#include <string>

#include "reports/record/comparison.h"

namespace lockstep {

/// What the modules of a step that differs say about the place of the fault: "First module that
/// differs: blocks.3 on rank 0: ratio 1.01, ...". Empty: they were not observed on both sides.
std::string module_hint(const StepDifference& step);

/// A step in which nothing but outputs of modules differs.
std::string output_difference_in_words(const StepDifference& step);

/// What was compared of modules: "modules: 12 outputs and the gradients at 12 of them, rank by
/// rank". Empty: neither side observed any.
std::string compared_modules_in_words(const ComparedPair& diff);

/// The first difference of modules in a comparison whose gradients and updates do not differ, and
/// which it does not decide; empty: there is none.
std::string undeciding_modules_in_words(const ComparedPair& diff);

}  // namespace lockstep
