#pragma once

#include <optional>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/verdict/job_fault.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Judges the claim that ranks share the buffers which are state of a job's training
/// (`JobRecord::state_buffers`), before its forward passes. Empty: it is not violated. To be called
/// after its other claims, since they say how it divides its model.
///
/// A buffer counts if it differs in at least two steps and in the last one, and all ranks hold the
/// whole model, or parts that sharded data parallelism makes. All others are in a note
/// (`other_kinds_in_words`). `judged`: evidence of the job.
std::optional<JobFault> buffers_apart(const JobRecord& job, const CellEvidence& judged);

}  // namespace lockstep
