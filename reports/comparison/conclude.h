#pragma once

#include "reports/record/comparison.h"

namespace lockstep {

/// Ends the comparison of two sides, once: fills `result` with the verdict and a finding for each
/// kind of fault in the first step that differs. Of more than 2000 steps it leaves out those that
/// no report shows, so that the record of a long training stays small.
void conclude(ComparedPair& diff);

/// Replaces the result of a concluded pair whose B is the second run of A: the claim is that both
/// have the same bits.
void conclude_repetition(ComparedPair& diff);

}  // namespace lockstep
