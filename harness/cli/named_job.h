#pragma once

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "harness/cli/named_runs.h"
#include "harness/diff/diff_side.h"

namespace lockstep {

/// A run of a watched job that the command line names, or a cell of a run of the catalogue by its
/// folder, with its files, for a comparison.
class NamedJob {
 public:
  /// Throws Error (usage) if it is neither, or has no files.
  explicit NamedJob(const std::string& named);

  const SideFiles& files() const { return *files_; }

  /// The job's runs by `watch --repeat` and `--perturb`, or the perturbed copies of a reference.
  const std::vector<std::unique_ptr<SideFiles>>& repetitions() const { return repetitions_; }

 private:
  void open(const JobRecord& job, const JoinedRun& run);
  void open(const CellRecord& cell, const JoinedRun& run);

  NamedRuns runs_;
  std::unique_ptr<SideFiles> files_;
  std::vector<std::unique_ptr<SideFiles>> repetitions_;
  std::vector<std::unique_ptr<NamedJob>> other_runs_;  ///< whose files are `repetitions_`
};

/// The repetitions of jobs, as far as they have any.
std::vector<const SideFiles*> repetitions_of(std::initializer_list<const NamedJob*> jobs);

/// Whether this is the folder of a cell in a run's. By its snapshots alone it would be a
/// checkpoint.
bool is_folder_of_cell(const std::string& named);

}  // namespace lockstep
