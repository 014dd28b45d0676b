#pragma once

#include <optional>
#include <string>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Ranks that saw the same samples in every observed step, by the digests of `watch --data`.
struct SharedSamples {
  /// "ranks 0,1 saw the same samples in each of the first 4 steps"; empty: no two ranks did.
  std::string text;
  /// All ranks did, though they divide neither the model nor a batch, and reduce gradients.
  std::optional<Finding> fault = {};
  Symptom symptom = {};  ///< with a fault: of a job whose other claims hold
};

/// Reads up to eight steps. It is a fault if all of these hold:
///   - all ranks saw the same, at least four different batches, and more samples than there are
///     ranks;
///   - they contributed the same gradients, as far as these are known;
///   - all parameters are copies on all ranks, and no forward pass called a collective; or all are
///     copies, or parts by sharded data parallelism, as the names of their groups or meshes say;
///   - no group that the training named is of another dimension than data;
///   - ranks called collectives in every step.
/// `coverage`: of the job.
SharedSamples shared_samples(const JobRecord& job, const StepReader& evidence,
                             const Coverage& coverage);

}  // namespace lockstep
