#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/diff_side.h"
#include "harness/validate/code_states.h"
#include "harness/validate/command_cells.h"
#include "harness/validate/job_execution.h"
#include "harness/validate/validate.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A job of a validation.
struct JobWish {
  std::string role;                  ///< its folder in that of the cell: "before"
  std::vector<std::string> command;  ///< without axes
  const CodeState& state;
  CommandCell cell = {};
  bool has_modules = false;          ///< observes modules, too
  std::int64_t start = 1;            ///< the first observed step
  std::int64_t until = 0;            ///< the last one; 0: that of the job
  std::filesystem::path lines = {};  ///< a file with lines to look for; empty: none
};

/// A job that ran.
struct RanJob {
  JobRecord record;
  std::unique_ptr<SideFiles> files;
  JobExecution execution;
};

/// Runs the jobs of a validation, each once, and says how they went.
class ValidatedJobs {
 public:
  /// Both outlive this.
  ValidatedJobs(const ValidationRequest& request, const std::string& version)
      : request_(request), version_(version) {}

  /// Of jobs to run, as far as it is known.
  void plan(std::size_t count) { planned_ += count; }

  /// The job, which runs now unless one with the same command, state and wishes did. Throws Error
  /// (usage).
  const RanJob& ran(const JobWish& wish);

  /// The same of a reference, which a run of `ValidationRequest::reuse` may stand for. `beside`: a
  /// job of the same state that has run.
  const RanJob& ran_or_reused(const JobWish& wish, const RanJob& beside);

  /// What the reader of the comparison should know: "the reference is the run in ...".
  std::vector<std::string> notes;

 private:
  using Key = std::pair<std::vector<std::string>, std::vector<std::string>>;

  static Key key_of(const JobWish& wish);
  void run(const JobWish& wish, RanJob& job) const;
  void tell(const JobWish& wish, const JobRecord& job, const std::string& place);

  const ValidationRequest& request_;
  const std::string& version_;
  std::map<Key, RanJob> jobs_;
  std::size_t planned_ = 0, done_ = 0;
};

}  // namespace lockstep
