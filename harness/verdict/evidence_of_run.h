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

/// Whether ranks of it began to train.
bool was_run(const Execution& execution);

/// The evidence of a run's cells and jobs, each read once.
class EvidenceOfRun {
 public:
  EvidenceOfRun(const RunRecord& run, std::filesystem::path folder, Reading reading = {})
      : run_(run), folder_(std::move(folder)), reading_(std::move(reading)) {}

  /// Of the cell in `cell_folder`; null when there is no such cell or it was not run.
  const StepReader* of(const std::string& cell_folder);

  /// Of a job that was run.
  const StepReader* of(const JobRecord& job);

  /// What of the files is not as the ranks left it, a sentence each; empty where all is.
  /// `identity`: of the execution.
  std::vector<std::string> faults_of(const Execution& execution, const std::string& identity) const;

  /// Lets go of the steps that were read, except those of the cell in `cell_folder`, which the next
  /// cells are compared with.
  void forget_steps_but_of(const std::string& cell_folder) const;

  /// Reads all rows of the cell or job that a journal is of from now on.
  void distrust(const StaleIndex& stale);

  /// Why an index of that cell was ignored; empty where none was.
  std::string index_fault_of(const std::string& cell_folder) const;

  /// How the ranks of that cell ended; empty where there is no such cell or it was not run.
  std::vector<RankExit> exits_of(const std::string& cell_folder) const;

  /// How rank 0 of that cell ended.
  std::optional<RankExit> first_exit_of(const std::string& cell_folder) const;

  /// Whether a file that was read does not say who wrote it.
  bool has_unsigned() const;

  /// Whether a cell was run whose files nobody listed.
  bool has_unlisted() const;

  /// Whether digests are by a definition that this program does not compute.
  bool has_other_digests() const { return run_.environment.digest != kDigestName; }

 private:
  const StepReader* open(const Execution& execution, Writers writers);
  void require_digest_of_run(const StepReader& evidence, const Execution& execution) const;
  const CellRecord* cell_in(const std::string& folder) const;

  const RunRecord& run_;
  std::filesystem::path folder_;
  Reading reading_;
  std::map<std::string, std::unique_ptr<StepReader>> read_;
  std::map<std::string, std::string> index_faults_;  ///< by the cell's folder
};

/// Does `work`, and again where an index turned out not to be of its rows, without it.
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
