#pragma once

#include "reports/record/run_record.h"

namespace lockstep {

/// Adds the comparisons of a judged job with other runs to its verdict: that with a reference is
/// one of its results, and its symptom if nothing else is wrong. A repetition that differs is a
/// note. Call once after each judgement.
void add_comparisons(JobRecord& job);

}  // namespace lockstep
