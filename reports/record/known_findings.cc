#include "reports/record/known_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/name_pattern.h"
#include "reports/base/names.h"
#include "reports/base/regular_file.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestFile = 16 << 20;
constexpr std::string_view kSeparator = " | ";

/// Without blanks and a carriage return at its end.
std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == line.npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

bool is_key(const std::string& line) {
  const std::size_t end = line.find(kSeparator);
  return end != line.npos && parse<FindingKind>(line.substr(0, end));
}

/// Whether the key is of a cell or job with one of the labels, which may have separators, too.
bool is_of_any(std::string_view key, const std::unordered_set<std::string_view>& labels) {
  const std::size_t at = key.find(kSeparator) + kSeparator.size();
  for (std::size_t end = key.find(kSeparator, at); end != key.npos;
       end = key.find(kSeparator, end + 1)) {
    if (labels.contains(key.substr(at, end - at))) return true;
  }
  return false;
}

/// A key in two: before its last separator, and the tensor behind it.
std::pair<std::string_view, std::string_view> in_two(std::string_view key) {
  const std::size_t end = key.rfind(kSeparator);
  return {key.substr(0, end), key.substr(end + kSeparator.size())};
}

bool is_pattern(std::string_view tensor) { return tensor.find('*') != tensor.npos; }

/// Takes the listed findings out of a result.
void leave_out(const std::string& label, const KnownFindings& known, ClaimResult& result) {
  if (result.verdict != Verdict::violated) return;
  std::erase_if(result.findings,
                [&](const Finding& finding) { return known.lists_all(keys_of(label, finding)); });
  if (result.findings.empty()) result.verdict = Verdict::holds;
}

void leave_out(const std::string& label, const KnownFindings& known, Execution& execution) {
  for (ClaimResult& result : execution.results) leave_out(label, known, result);
}

bool holds(const CellRecord& cell, const Claim& claim) {
  return std::any_of(cell.results.begin(), cell.results.end(), [&](const ClaimResult& result) {
    return result.claim == claim && result.verdict == Verdict::holds;
  });
}

/// A cell whose only failures are listed findings is as expected.
void forgive(CellRecord& cell) {
  bool is_failed = false, is_open = false;
  for (const Check& check : cell.checks) {
    const bool is_listed =
        check.result == Check::Result::false_alarm && check.claim && holds(cell, *check.claim);
    is_failed = is_failed || (!is_listed && (check.result == Check::Result::false_alarm ||
                                             check.result == Check::Result::missed));
    is_open = is_open || check.result == Check::Result::undecided;
  }
  if (cell.verdict != CellVerdict::false_alarm || is_failed) return;
  cell.verdict = is_open ? CellVerdict::undecided : CellVerdict::as_expected;
}

/// The symptom of a job follows from its findings.
void forgive(JobRecord& job) {
  const bool is_violated =
      std::any_of(job.results.begin(), job.results.end(),
                  [](const ClaimResult& result) { return result.verdict == Verdict::violated; });
  if (!is_violated && job.symptom.kind != SymptomKind::undecided) {
    job.symptom.kind = SymptomKind::right;
  }
}

/// The keys of findings that were made.
class Found {
 public:
  explicit Found(const std::vector<std::string>& keys) : keys_(keys.begin(), keys.end()) {
    for (const std::string& key : keys) {
      const auto [before, tensor] = in_two(key);
      tensors_[before].push_back(tensor);
    }
  }

  /// Whether `listed`, which may have a pattern, is one or lists one.
  bool has_any_of(const std::string& listed) const {
    if (keys_.contains(listed)) return true;
    const auto [before, pattern] = in_two(listed);
    const auto found = tensors_.find(before);
    if (!is_pattern(pattern) || found == tensors_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(),
                       [sought = pattern](std::string_view name) { return matches(sought, name); });
  }

 private:
  std::unordered_set<std::string_view> keys_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> tensors_;
};

std::set<std::string> labels_of(const RunRecord& run) {
  std::set<std::string> labels;
  for (const CellRecord& cell : run.cells) labels.insert(label_of(cell));
  for (const JobRecord& job : run.jobs) labels.insert(label_of(job));
  for (const Comparison& comparison : run.comparisons) {
    for (const ComparedPair& pair : comparison.pairs) labels.insert(label_of(pair));
  }
  return labels;
}

}  // namespace

KnownFindings KnownFindings::read(const std::filesystem::path& path) {
  KnownFindings known;
  known.file_ = path.string();
  std::istringstream text(read_text(path, kLargestFile));
  std::int64_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    if (!is_key(line)) {
      throw malformed(path.string(), number, 0,
                      "a finding, as `lockstep report RUN --format keys` prints it", line);
    }
    known.keys_.insert(line);
    const auto [before, tensor] = in_two(line);
    if (is_pattern(tensor)) known.patterns_[std::string(before)].emplace_back(tensor);
  }
  return known;
}

bool KnownFindings::lists(const std::string& key) const {
  if (keys_.contains(key)) return true;
  const auto [before, tensor] = in_two(key);
  const auto found = patterns_.find(before);
  if (found == patterns_.end()) return false;
  return std::any_of(
      found->second.begin(), found->second.end(),
      [name = tensor](const std::string& pattern) { return matches(pattern, name); });
}

bool KnownFindings::lists_all(const std::vector<std::string>& keys) const {
  return !keys.empty() &&
         std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return lists(key); });
}

std::vector<std::string> KnownFindings::stale(const std::set<std::string>& labels,
                                              const std::vector<std::string>& found) const {
  const std::unordered_set<std::string_view> all(labels.begin(), labels.end());
  const Found here(found);
  std::vector<std::string> stale;
  for (const std::string& key : keys_) {
    if (is_of_any(key, all) && !here.has_any_of(key)) stale.push_back(key);
  }
  return stale;
}

std::string KnownFindings::in_words(const std::set<std::string>& labels,
                                    const std::vector<std::string>& found) const {
  const auto listed =
      std::count_if(found.begin(), found.end(), [&](const std::string& key) { return lists(key); });
  std::string text = fmt::format("Known findings: {} of {} found here {} in {}.\n", listed,
                                 found.size(), listed == 1 ? "is" : "are", file_);
  for (const std::string& key : found) {
    if (!lists(key)) text += fmt::format("  new: {}\n", key);
  }
  for (const std::string& key : stale(labels, found)) {
    text += fmt::format("  listed, but not found: {}\n", key);
  }
  return text;
}

JobRecord without_known(const JobRecord& job, const std::optional<KnownFindings>& known) {
  JobRecord rest = job;
  if (!known) return rest;
  leave_out(label_of(job), *known, rest);
  forgive(rest);
  return rest;
}

RunRecord without_known(const RunRecord& run, const std::optional<KnownFindings>& known) {
  RunRecord rest = run;
  if (!known) return rest;
  for (CellRecord& cell : rest.cells) {
    leave_out(label_of(cell), *known, cell);
    forgive(cell);
  }
  for (JobRecord& job : rest.jobs) job = without_known(job, known);
  for (Comparison& comparison : rest.comparisons) {
    if (comparison.pairs.empty()) continue;
    ComparedPair& judged = comparison.pairs.back();  // of a fix, what was there before is wanted
    leave_out(label_of(judged), *known, judged.result);
  }
  return rest;
}

std::string known_in_words(const RunRecord& run, const std::optional<KnownFindings>& known) {
  return !known ? "" : known->in_words(labels_of(run), keys_of(run));
}

}  // namespace lockstep
