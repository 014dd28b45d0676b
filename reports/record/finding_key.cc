#include "reports/record/finding_key.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>

#include "reports/base/plain_text.h"
#include "reports/record/cell.h"

namespace lockstep {

namespace {

/// "agree_across_ranks gradient pre_step".
std::string words_of(const Claim& claim) {
  std::string words(name(claim.predicate));
  if (claim.kind) words += fmt::format(" {}", name(*claim.kind));
  if (claim.phase) words += fmt::format(" {}", name(*claim.phase));
  return words;
}

/// The keys of the findings of one claim.
void add_keys(const std::string& label, const ClaimResult& result, std::set<std::string>& known,
              std::vector<std::string>& keys) {
  for (const Finding& finding : result.findings) {
    for (std::string& key : keys_of(label, finding)) {
      if (known.insert(key).second) keys.push_back(std::move(key));
    }
  }
}

void add_keys(const std::string& label, const Execution& execution, std::set<std::string>& known,
              std::vector<std::string>& keys) {
  for (const ClaimResult& result : execution.results) add_keys(label, result, known, keys);
}

}  // namespace

std::string key_of(FindingKind kind, std::string_view label, const Claim& claim,
                   std::string_view tensor) {
  std::string key = fmt::format("{} | {} | {}", name(kind), label, words_of(claim));
  if (!tensor.empty()) key += fmt::format(" | {}", tensor);
  return plain(key);
}

std::vector<std::string> keys_of(std::string_view label, const Finding& finding) {
  if (finding.tensors.empty()) {
    return {key_of(finding.kind, label, finding.claim, finding.tensor)};
  }
  const bool are_several = finding.tensors.size() > 1;
  const bool are_all =
      are_several && static_cast<std::int64_t>(finding.tensors.size()) == finding.compared;
  const std::string pattern = are_all ? "*" : are_several ? finding.pattern : "";
  if (!pattern.empty()) return {key_of(finding.kind, label, finding.claim, pattern)};
  std::vector<std::string> keys;
  for (const std::string& tensor : finding.tensors) {
    keys.push_back(key_of(finding.kind, label, finding.claim, tensor));
  }
  return keys;
}

std::string label_of(const CellRecord& cell) {
  Cell any = cell.cell;
  any.repetition = 1;
  return folder_of(any);
}

std::string label_of(const JobRecord& job) { return job.label.empty() ? job.title : job.label; }

std::string label_of(const ComparedPair& pair) {
  const ComparedSide& b = pair.sides[1];
  return b.label.empty() ? b.title : b.label;
}

std::vector<std::string> keys_of(const ComparedPair& pair) {
  std::set<std::string> known;
  std::vector<std::string> keys;
  add_keys(label_of(pair), pair.result, known, keys);
  return keys;
}

std::vector<std::string> keys_of(const RunRecord& run) {
  std::set<std::string> known;
  std::vector<std::string> keys;
  for (const CellRecord& cell : run.cells) add_keys(label_of(cell), cell, known, keys);
  for (const JobRecord& job : run.jobs) add_keys(label_of(job), job, known, keys);
  for (const Comparison& comparison : run.comparisons) {
    if (comparison.pairs.empty()) continue;
    const ComparedPair& judged = comparison.pairs.back();
    add_keys(label_of(judged), judged.result, known, keys);
  }
  return keys;
}

std::string lines_of_keys(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += key + "\n";
  return text;
}

}  // namespace lockstep
