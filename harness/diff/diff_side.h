#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/diff/diff_record.h"
#include "harness/diff/whole_tensors.h"
#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Names of tensors that one side has under other names.
class NameMap {
 public:
  /// Reads lines of an old name and the new one, or the parts that it was split into, separated by
  /// blanks. `#` begins a comment. Throws Error (usage).
  static NameMap read(const std::filesystem::path& path);

  void add(std::string old_name, std::vector<std::string> new_names);

  /// Gives the tensors of A their new names, as far as they have one.
  void rename(WholeTensors& tensors) const;

  /// Fuses the tensors of B that were split.
  void fuse(WholeTensors& tensors) const;

 private:
  std::map<std::string, std::vector<std::string>> names_;
};

/// The files of a watched job, one of the two that are compared.
class JobFiles {
 public:
  /// `job` was taken up, and its files lie below `root`. `shown`: the run as users know it. Throws
  /// Error (usage).
  JobFiles(const JobRecord& job, const std::filesystem::path& root, std::string shown);

  const JobRecord& job() const { return job_; }
  const std::string& shown() const { return shown_; }
  const StepReader& reader() const { return *reader_; }
  bool has(std::int64_t step) const;

 private:
  JobRecord job_;
  std::string shown_;
  std::unique_ptr<StepReader> reader_;
};

/// The job as a comparison shows it.
DiffSide side_of(const JobFiles& files);

}  // namespace lockstep
