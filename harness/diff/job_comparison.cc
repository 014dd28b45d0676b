#include "harness/diff/job_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_words.h"

namespace lockstep {

namespace {

/// Tensors of all steps that were compared.
std::int64_t comparisons_in(const DiffRecord& diff) {
  std::int64_t count = 0;
  for (const StepDifference& step : diff.steps) {
    for (std::size_t i = 0; i < Names<Likeness>::values.size(); ++i) {
      count += step.count(static_cast<Likeness>(i));
    }
  }
  return count;
}

bool has_equal_bits(const DiffRecord& diff) {
  return !diff.steps.empty() && std::ranges::all_of(diff.steps, [](const StepDifference& step) {
    return step.count(Likeness::rounding) + step.count(Likeness::undecided) +
               step.count(Likeness::different) ==
           0;
  });
}

/// Ranks of B that differ, each alone.
std::vector<std::vector<int>> ranks_of(const TensorDifference& one, const DiffSide& side) {
  std::vector<std::vector<int>> groups;
  for (const int rank : one.ranks) groups.push_back({rank});
  for (int rank = 0; one.ranks.empty() && rank < side.world_size; ++rank) groups.push_back({rank});
  return groups;
}

/// Of tensors of one kind. Requires: `faults` is not empty.
Finding finding_of(const std::vector<const TensorDifference*>& faults, const StepDifference& step,
                   const DiffRecord& diff) {
  const TensorDifference& first = *faults.front();
  Finding finding;
  finding.claim = claim_of(first.quantity);
  finding.kind = kind_of(first);
  finding.step = finding.last_step = step.other;
  finding.tensor = first.name;
  for (const TensorDifference* one : faults) finding.tensors.push_back(one->name);
  finding.groups = ranks_of(first, diff.sides[1]);
  finding.places = static_cast<std::int64_t>(faults.size());
  finding.relative_difference = first.relative;
  finding.tolerance = first.tolerance;
  finding.ratio = first.ratio;
  finding.cosine = first.cosine;
  if (first.is_multiple) finding.ratio_in_words = first.cause;
  finding.sentence = verdict_in_words(diff);
  return finding;
}

/// One of each kind, in the order of the tensors. Requires: `diff` has a different step.
std::vector<Finding> findings_of(const DiffRecord& diff) {
  const StepDifference& step = *first_different(diff);
  std::vector<std::vector<const TensorDifference*>> kinds;
  for (const TensorDifference* one : faults_of(step)) {
    const auto same = std::ranges::find_if(
        kinds, [&](const auto& faults) { return kind_of(*faults.front()) == kind_of(*one); });
    if (same == kinds.end()) {
      kinds.push_back({one});
    } else {
      same->push_back(one);
    }
  }
  std::vector<Finding> findings;
  for (const auto& faults : kinds) findings.push_back(finding_of(faults, step, diff));
  return findings;
}

}  // namespace

JobComparison comparison_with_reference(const DiffRecord& diff, const std::string& folder) {
  JobComparison comparison{ComparedWith::reference, folder, {}, verdict_in_words(diff)};
  ClaimResult& result = comparison.result;
  result.claim = claim_of(Compared::weight);
  result.verdict = diff.matched == 0 ? Verdict::undecided : verdict_of(diff);
  result.comparisons = comparisons_in(diff);
  if (result.verdict == Verdict::undecided) result.reason = comparison.sentence;
  if (result.verdict != Verdict::violated) return comparison;
  result.findings = findings_of(diff);
  result.claim = result.findings.front().claim;
  return comparison;
}

JobComparison comparison_with_repetition(const DiffRecord& diff, const std::string& folder) {
  JobComparison comparison{ComparedWith::repetition, folder, {}, ""};
  comparison.result.claim = claim_of(Compared::weight);
  comparison.result.comparisons = comparisons_in(diff);
  const bool is_same = has_equal_bits(diff);
  comparison.result.verdict = is_same ? Verdict::holds : Verdict::undecided;
  comparison.sentence =
      is_same ? "reproducible: the second run has the same bits"
              : "not reproducible bit for bit: the second run, compared with the first: " +
                    verdict_in_words(diff);
  if (!is_same) comparison.result.reason = comparison.sentence;
  return comparison;
}

}  // namespace lockstep
