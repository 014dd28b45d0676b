#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "harness/cli/named_runs.h"
#include "harness/diff/diff_side.h"

namespace lockstep {

/// A run of a watched job that the command line names, with its files, for a comparison.
class NamedJob {
 public:
  /// Throws Error (usage) if it is no job, or has no files.
  explicit NamedJob(const std::string& named);

  const JobFiles& files() const { return *files_; }

  /// The job's second run by `watch --twice`; null: there is none.
  const JobFiles* repetition() const { return repetition_ ? &repetition_->files() : nullptr; }

 private:
  NamedRuns runs_;
  std::unique_ptr<JobFiles> files_;
  std::unique_ptr<NamedJob> repetition_;
};

/// The repetitions of jobs, as far as they have any.
std::vector<const JobFiles*> repetitions_of(std::initializer_list<const NamedJob*> jobs);

}  // namespace lockstep
