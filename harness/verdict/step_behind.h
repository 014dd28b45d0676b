#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Ranks whose optimizer stepped less often than that of others, which reduce gradients with them
/// all the same.
struct StepBehind {
  std::vector<int> ranks;   ///< that are behind
  std::vector<int> others;  ///< that are not
  std::int64_t step = 0;    ///< the first in which gradients differ
  std::int64_t count = 0;   ///< of steps
};

/// If gradients differ between two groups of ranks, and those of one group are, bit for bit, the
/// gradients that the other group has a few steps later. Reads the rows of these steps.
std::optional<StepBehind> step_behind(const StepReader& evidence,
                                      const std::vector<ClaimResult>& results);

/// "rank 1 is an optimizer step behind: its gradients of step 5 are those of step 6 on rank 0".
std::string in_words(const StepBehind& behind);

}  // namespace lockstep
