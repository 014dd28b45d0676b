#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Findings that do not fail, because a file lists their keys (reports/record/finding_key.h).
class KnownFindings {
 public:
  /// Reads a key per line. Blank lines and those that begin with `#` are left out. Throws Error
  /// (usage) if a line is no key.
  static KnownFindings read(const std::filesystem::path& path);

  const std::string& file() const { return file_; }
  /// A listed key whose tensor is a pattern lists all tensors that match it.
  bool lists(const std::string& key) const;

  /// Whether all of `keys` are listed, and there are any.
  bool lists_all(const std::vector<std::string>& keys) const;

  /// The listed keys of cells or jobs with one of `labels` that list none of `found`.
  std::vector<std::string> stale(const std::set<std::string>& labels,
                                 const std::vector<std::string>& found) const;

  /// "known findings (known.txt): 2 of 3 are listed", then the new and the stale ones, a line each.
  std::string in_words(const std::set<std::string>& labels,
                       const std::vector<std::string>& found) const;

 private:
  std::string file_;
  std::set<std::string> keys_;
  /// Patterns of tensors, by what is before them in their keys.
  std::map<std::string, std::vector<std::string>, std::less<>> patterns_;
};

/// The record as it would be without the listed findings, for the exit status. What they leave
/// undecided stays undecided: after a known hang the rest is unknown.
/// Without `known` nothing is left out.
RunRecord without_known(const RunRecord& run, const std::optional<KnownFindings>& known);
JobRecord without_known(const JobRecord& job, const std::optional<KnownFindings>& known);

/// Which findings of the run are known, as lines of text; empty without `known`.
std::string known_in_words(const RunRecord& run, const std::optional<KnownFindings>& known);

}  // namespace lockstep
