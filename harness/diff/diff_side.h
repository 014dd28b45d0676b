#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/compare_values.h"
#include "harness/compare/ratio_meaning.h"
#include "harness/diff/whole_tensors.h"
#include "harness/judge/evidence/step_reader.h"
#include "reports/record/comparison.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Names of tensors that one side has under other names.
class NameMap {
 public:
  /// Reads lines of an old name and the new one, or the parts that it was split into, separated by
  /// blanks. `#` begins a comment. Throws Error (usage), also if a name is there twice or there is
  /// no line.
  static NameMap read(const std::filesystem::path& path);

  void add(std::string old_name, std::vector<std::string> new_names);

  /// The old names for which `is_known` is false, ascending.
  std::vector<std::string> unknown(const std::function<bool(const std::string&)>& is_known) const;

  /// The new name of a tensor of A; its old one if it has none, or was split.
  const std::string& new_name(const std::string& old_name) const;

  /// Gives the tensors of A their new names, as far as they have one.
  void rename(WholeTensors& tensors) const;

  /// Fuses the tensors of B that were split.
  void fuse(WholeTensors& tensors) const;

 private:
  std::map<std::string, std::vector<std::string>> names_;
};

/// The files of ranks that trained together, on one side of a comparison: of a watched job, or of a
/// cell of the catalogue.
class SideFiles {
 public:
  /// `job` was taken up, and its files lie below `root`. `shown`: the run as users know it. Throws
  /// Error (usage).
  SideFiles(JobRecord job, const std::filesystem::path& root, std::string shown);

  /// The ranks of a cell. Of a reference, one process: the reference itself, or its perturbed copy
  /// of this number. Throws Error (usage).
  SideFiles(const CellRecord& cell, const std::filesystem::path& root, std::string shown,
            int copy = 0);

  /// A cell has no settings, and its title is that of the cell.
  const JobRecord& job() const { return job_; }
  const std::string& shown() const { return shown_; }

  /// Names the samples of a cell: those of its scenario and the choices of its reference. Empty: it
  /// is a job, or a cell without a reference.
  const std::string& samples() const { return samples_; }

  /// Adds the groups that a training named, and tiles and micro-batches of a cell.
  void add_sizes(JobSizes& sizes) const;

  /// Steps with an observation, ascending.
  const std::vector<std::int64_t>& steps() const { return reader_->steps(); }
  bool has(std::int64_t step) const;

  /// The observations in one of `steps()`.
  std::shared_ptr<const StepView> at(std::int64_t step) const;

  /// Whether any tensor of this kind was observed.
  bool has_any(Kind kind) const;

  /// Whether any tensor of this name was observed.
  bool has_named(const std::string& name) const;

 private:
  JobRecord job_;
  std::string shown_;
  std::string samples_;
  std::vector<KnownSize> sizes_;  ///< of a cell
  std::unique_ptr<StepReader> reader_;
  std::optional<int> process_ = {};  ///< the only one that counts; absent: all do
};

/// The job as a comparison shows it.
ComparedSide side_of(const SideFiles& files);

}  // namespace lockstep
