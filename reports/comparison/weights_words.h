#pragma once

#include <string>
#include <vector>

#include "reports/record/comparison.h"

namespace lockstep {

/// "model.safetensors, 12 tensors (ckpt/model.safetensors); left out: 24 of an optimizer".
/// Requires: a checkpoint.
std::string checkpoint_in_words(const ComparedSide& side);

/// The answer about weights in one sentence, without its word: "1 of 8 weights: head.weight: ...".
/// Requires: `is_of_weights`, and a name matched.
std::string weights_in_words(const ComparedPair& diff);

/// A line for every weight that differs or is undecided, up to some, after the sentence; empty: the
/// sentence says all.
std::vector<std::string> lines_of_weights(const ComparedPair& diff);

}  // namespace lockstep
