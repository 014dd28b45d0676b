#pragma once

#include "harness/judge/evidence/case.h"

namespace lockstep {

/// Bitwise, whole tensors and equal shards, between the ranks of a replica group.
void judge_agreement(const Case& the_case, ClaimResult& result);

}  // namespace lockstep
