#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "harness/verdict/division_of_model.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Ranks that saw the same samples in every observed step, by the digests of `watch --data`.
struct SharedSamples {
  /// "ranks 0,1 saw the same samples in each of the first 4 steps"; empty: no two ranks did.
  std::string text;
  /// All ranks did, though they divide neither the model nor a batch, and reduce gradients.
  std::optional<Finding> fault = {};
  Symptom symptom = {};  ///< with a fault: of a job whose other claims hold
  /// Of ranks that saw the same, maybe of one alone; none has a rank whose samples are unknown.
  std::vector<std::vector<int>> groups = {};
};

/// The group of a rank; null: its samples are unknown.
const std::vector<int>* group_of(const SharedSamples& samples, int rank);

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

/// Of ranks that divide the model, and saw other samples than those with the other parts of it;
/// empty: there are none, or no samples were observed.
std::string samples_of_parts_in_words(const SharedSamples& samples, const PartsOfRanks& parts);

}  // namespace lockstep
