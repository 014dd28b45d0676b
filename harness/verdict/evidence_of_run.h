#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Whether its ranks began to train.
bool was_run(const Execution& execution);

/// The evidence of a run's cells and jobs, each read once.
class EvidenceOfRun {
 public:
  EvidenceOfRun(const RunRecord& run, std::filesystem::path folder, Reading reading = {})
      : run_(run), folder_(std::move(folder)), reading_(std::move(reading)) {}

  /// Of the cell in `cell_folder`; null if there is no such cell or it was not run.
  const StepReader* of(const std::string& cell_folder);

  /// Of a job that was run.
  const StepReader* of(const JobRecord& job);

  /// Differences between the files and their state at the ranks' end, one sentence each; empty if
  /// there are none. `identity` names the execution.
  std::vector<std::string> faults_of(const Execution& execution, const std::string& identity) const;
  std::vector<std::string> faults_of(const JobRecord& job) const;

  /// Releases the steps in memory, except those of the cell in `cell_folder`, which the next cells
  /// are compared with.
  void forget_steps_but_of(const std::string& cell_folder) const;

  /// From now on reads all rows of the cell or job that owns the journal.
  void distrust(const StaleIndex& stale);

  /// Why an index of that cell was ignored; empty if none was.
  std::string index_fault_of(const std::string& cell_folder) const;

  /// The rank exits of that cell; empty if there is no such cell or it was not run.
  std::vector<RankExit> exits_of(const std::string& cell_folder) const;

  /// The exit of rank 0 of that cell.
  std::optional<RankExit> first_exit_of(const std::string& cell_folder) const;

 private:
  const StepReader* open(const Execution& execution, Writers writers);
  const CellRecord* cell_in(const std::string& folder) const;
  bool has_part_in(const std::string& job_folder, const std::filesystem::path& folder) const;

  const RunRecord& run_;
  std::filesystem::path folder_;
  Reading reading_;
  std::map<std::string, std::unique_ptr<StepReader>> read_;
  std::map<std::string, std::string> index_faults_;  ///< by the cell's folder
};

/// Calls `work`, and calls it again without an index that turned out not to match its rows.
template <class Work>
auto without_stale_indices(EvidenceOfRun& evidence, const Work& work) {
  for (;;) {
    try {
      return work();
    } catch (const StaleIndex& stale) {
      evidence.distrust(stale);
    }
  }
}

}  // namespace lockstep
