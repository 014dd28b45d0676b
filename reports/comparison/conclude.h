#pragma once

#include "reports/record/comparison.h"

namespace lockstep {

/// Ends the comparison of two sides: fills `result` with the verdict and a finding for each kind of
/// fault in the first step that differs, then leaves out what no report shows, so that a record of
/// a long training stays small: tensors of most steps, and steps beyond 2000.
void conclude(ComparedPair& diff);

/// The same of a job, A, and its second run, B: the claim is that both have the same bits.
void conclude_repetition(ComparedPair& diff);

}  // namespace lockstep
