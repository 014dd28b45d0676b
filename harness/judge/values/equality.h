#pragma once

#include "harness/judge/evidence/case.h"

namespace lockstep {

/// Against the reference, within what roundings explain (see expected_values.h).
void judge_equality(const Case& the_case, ClaimResult& result);

}  // namespace lockstep
