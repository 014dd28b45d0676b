#pragma once

#include <set>
#include <string>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// Names of the parameters that each rank of a job has for itself, such as its expert of a mixture.
/// Each rank has as many that no other rank has, of the same shapes and types, and their names
/// differ in numbers alone: the training gives each rank its own. Empty: anything less may be a
/// fault, such as a layer that was added on one rank.
std::set<std::string> own_tensors(const StepReader& evidence);

/// "experts.0.w and 3 more are each on one rank alone: if they are meant to be, --ignore
/// '^experts\.' leaves them out". `names`: at least one.
std::string lone_in_words(const std::set<std::string>& names);

}  // namespace lockstep
