#include "reports/formats/shown_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/record/alike_failures.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// The first letter may be a capital in another sentence.
std::string without_first_letter(const std::string& text) {
  return text.substr(std::min<std::size_t>(1, text.size()));
}

/// Whether an earlier finding includes it: for a hang, two claims report one mismatch.
bool is_shown(const Finding& finding, const std::vector<ShownFinding>& earlier) {
  const std::string words = without_first_letter(finding.sentence);
  return finding.claim.predicate == Predicate::collectives_match &&
         std::any_of(earlier.begin(), earlier.end(), [&](const ShownFinding& other) {
           return other.finding->sentence.find(words) != std::string::npos;
         });
}

/// The sentence about one rank, extended to all that failed alike; empty if a lower rank's has it.
std::string about_all_alike(const Execution& execution, const Finding& finding) {
  if (!finding.failure) return finding.sentence;
  const std::vector<int> ranks = ranks_failing_alike(execution, finding);
  const std::string one = ranks_in_words({finding.failure->rank});
  if (ranks.size() < 2 || !finding.sentence.starts_with(one)) return finding.sentence;
  if (finding.failure->rank != ranks.front()) return "";
  return ranks_in_words(ranks) + finding.sentence.substr(one.size());
}

/// `sentence` without the cause at its beginning.
std::string without(const std::string& cause, const std::string& sentence) {
  const std::string begin = without_first_letter(cause) + ".";
  if (cause.empty() || !without_first_letter(sentence).starts_with(begin)) return sentence;
  const std::size_t rest = sentence.find_first_not_of(' ', 1 + begin.size());
  return rest == std::string::npos ? "" : sentence.substr(rest);
}

std::vector<ShownFinding> shown_below(const std::string& cause, const Execution& execution) {
  std::vector<ShownFinding> shown;
  for (const ClaimResult& result : execution.results) {
    for (const Finding& finding : result.findings) {
      const std::string sentence = about_all_alike(execution, finding);
      if (sentence.empty() || is_shown(finding, shown)) continue;
      shown.push_back({&finding, without(cause, sentence)});
    }
  }
  return shown;
}

}  // namespace

std::vector<ShownFinding> shown_findings(const CellRecord& cell) {
  return shown_below(cause_of(cell), cell);
}

std::vector<ShownFinding> shown_findings(const JobRecord& job) { return shown_below("", job); }

}  // namespace lockstep
