#pragma once

#include "harness/train/rank/rank.h"

namespace lockstep {

/// Two healthy tensors per step, the same on all ranks. Variant `flip` flips one bit of element 5
/// of "b". Its axes choose the rank (`rank`), the step (`step`) and the bit (`bit`).
void train_with_planted_bit(Rank& rank);

}  // namespace lockstep
