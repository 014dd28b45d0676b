#pragma once

#include "harness/train/rank/rank.h"

namespace lockstep {

/// Two healthy tensors per step, the same on all ranks. Variant `flip` flips one bit of element 5
/// of "b" on the rank of axis `rank` in the step of axis `step`: the bit of axis `bit`.
void train_with_planted_bit(Rank& rank);

}  // namespace lockstep
