#pragma once

#include <optional>
#include <string>

#include "harness/record/collective_log.h"
#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// The role of a parameter or of its gradient in the program, as `Collective::tensor` has it: "w",
/// "gradient of w".
std::string role_in_words(Kind kind, const std::string& parameter);

/// "allreduce sum float32 [4, 4], gradient of w".
std::string call_in_words(const Collective& call);

/// The first property in which two ranks' matching calls differ: operation, reduction, dtype, size
/// or root. Empty if the calls are compatible. Tensors are not compared, because their names are
/// only hints.
std::optional<MismatchFault> difference(const Collective& a, const Collective& b);

/// Sentence for two calls that differ: "rank 1 calls broadcast float32 [4], root 0
/// (file.cc:12), but rank 0 calls allreduce ...".
std::string difference_in_words(const Collective& a, int rank_a, const Collective& b, int rank_b);

}  // namespace lockstep
