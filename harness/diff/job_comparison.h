#pragma once

#include <string>

#include "harness/diff/diff_record.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The comparison of a job, B, with a reference, A, for the job's record. `folder`: of A, as the
/// user named it.
JobComparison comparison_with_reference(const DiffRecord& diff, const std::string& folder);

/// That of a job, A, with its second run, B. The claim is that both have the same bits.
JobComparison comparison_with_repetition(const DiffRecord& diff, const std::string& folder);

}  // namespace lockstep
