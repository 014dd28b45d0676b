#pragma once

#include <optional>
#include <string>

#include "harness/verdict/job_fault.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A job of which an optimizer holds parameters that its model no longer has, so that those in
/// their place did not change: on all ranks, and in so many steps that it is no accident. Empty:
/// there are none.
std::optional<JobFault> untrained_parameters(const JobRecord& job);

/// The same where it was seen in too few steps for a verdict, and parameters that no optimizer was
/// given, which the training may want; empty: there are none.
std::string untrained_in_words(const JobRecord& job);

}  // namespace lockstep
