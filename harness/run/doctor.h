#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `doctor` of a program with scenarios: says also which torch and which backends it has, and
/// starts two ranks that reduce a tensor.
Command doctor_with_ranks();

}  // namespace lockstep
