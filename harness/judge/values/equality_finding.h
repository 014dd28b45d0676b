#pragma once

#include <string>

#include "harness/judge/evidence/claim_fold.h"
#include "harness/judge/values/tensor_comparison.h"
#include "reports/record/finding.h"

namespace lockstep {

/// The finding about the first tensor that does not equal the reference, without what follows from
/// the others: places, groups and sentence.
Finding finding_of_inequality(const CellStep& step, int world_size, const Claim& claim,
                              const TensorComparison& first);

/// Its fault, as the end of a sentence.
std::string fault_in_words(const Finding& finding, const TensorComparison& first);

}  // namespace lockstep
