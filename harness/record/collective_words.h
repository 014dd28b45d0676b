#pragma once

#include <optional>
#include <string>

#include "harness/record/collective_log.h"
#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// "allreduce sum float32 [4, 4], gradient of w".
std::string call_in_words(const Collective& call);

/// What two ranks' calls that are to meet differ in first: operation, reduction, dtype, size or
/// root. Nothing when they fit together. Tensors are not compared: what they are called is a hint.
std::optional<MismatchFault> difference(const Collective& a, const Collective& b);

/// "rank 1 calls broadcast float32 [4], root 0 (file.cc:12) where rank 0 calls allreduce ...": for
/// two calls that differ.
std::string difference_in_words(const Collective& a, int rank_a, const Collective& b, int rank_b);

}  // namespace lockstep
