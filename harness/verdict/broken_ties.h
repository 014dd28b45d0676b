#pragma once

#include <optional>

#include "harness/verdict/job_fault.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A job of which all ranks train several parameters, whose values differ, where modules once
/// shared one. Empty: none was seen.
std::optional<JobFault> broken_ties(const JobRecord& job);

}  // namespace lockstep
