#include "reports/comparison/conclude.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reports/comparison/comparison_words.h"
#include "reports/record/thinned_steps.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSteps = 2000;

/// Ranks of B that differ, each alone.
std::vector<std::vector<int>> ranks_of(const TensorDifference& one, const ComparedSide& side) {
  std::vector<std::vector<int>> groups;
  for (const int rank : one.ranks) groups.push_back({rank});
  for (int rank = 0; one.ranks.empty() && rank < side.world_size; ++rank) groups.push_back({rank});
  return groups;
}

/// Of tensors of one kind. Requires: `faults` is not empty.
Finding finding_of(const std::vector<const TensorDifference*>& faults, const StepDifference& step,
                   const ComparedPair& diff) {
  const TensorDifference& first = *faults.front();
  Finding finding;
  finding.claim = claim_of(first.quantity);
  finding.kind = kind_of(first);
  finding.step = finding.last_step = step.other;
  finding.tensor = first.name;
  for (const TensorDifference* one : faults) finding.tensors.push_back(one->name);
  finding.groups = ranks_of(first, diff.sides[1]);
  finding.places = static_cast<std::int64_t>(faults.size());
  finding.compared = std::ranges::count(step.tensors, first.quantity, &TensorDifference::quantity);
  if (faults.size() == faults_of(step).size()) finding.pattern = pattern_of_faults(step);
  finding.relative_difference = first.relative;
  finding.tolerance = first.tolerance;
  finding.ratio = first.ratio;
  finding.cosine = first.cosine;
  finding.multiple = first.multiple;
  finding.estimate_error = first.estimate_error;
  finding.sentence = verdict_in_words(diff);
  return finding;
}

/// That B goes on with other samples.
Finding finding_of_samples(const ComparedPair& diff) {
  Finding finding;
  finding.claim = equal_reference(Kind::data, Phase::pre_forward);
  finding.kind = FindingKind::states_differ;
  finding.step = finding.last_step = diff.steps.empty() ? 1 : diff.steps.front().other;
  for (int rank = 0; rank < diff.sides[1].world_size; ++rank) finding.groups.push_back({rank});
  finding.places = 1;
  finding.sentence = verdict_in_words(diff);
  return finding;
}

/// One of each kind, in the order of the tensors.
std::vector<Finding> findings_of(const StepDifference& step, const ComparedPair& diff) {
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

/// Steps in a row of one state are alike in a report.
std::int64_t state_of(const StepDifference& step) {
  std::int64_t state = step.undecidable.empty() ? 0 : 1;
  for (std::size_t i = 0; i < kLikenesses; ++i) {
    state = 2 * state + (step.count(static_cast<Likeness>(i)) > 0 ? 1 : 0);
  }
  return state;
}

/// Steps that a sentence names: the first of each kind, and the one before the first undecided one.
class NamedSteps {
 public:
  explicit NamedSteps(const ComparedPair& diff) {
    const auto& steps = diff.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const StepDifference& step = steps[i];
      const bool is_open = !step.undecidable.empty() || step.count(Likeness::undecided) > 0;
      note(i, step.count(Likeness::different) > 0 || step.modules.has_finding(), differs_);
      if (is_open && !is_open_ && i > 0) kept_.insert(i - 1);
      note(i, is_open, is_open_);
      note(i, step.modules.basis != ModuleBasis::nothing, has_modules_);
      note(i, has_different(step.modules.tensors, {}), differs_in_modules_);
      note(i, has_different(step.tensors, Compared::loss), loss_differs_);
      note(i, has_different(step.tensors, Compared::statistic), statistic_differs_);
      note(i, std::ranges::any_of(step.tensors, [](const auto& one) { return !one.is_finite; }),
           is_not_finite_);
    }
  }

  const std::set<std::size_t>& kept() const { return kept_; }

 private:
  void note(std::size_t step, bool is_so, bool& was_so) {
    if (is_so && !was_so) kept_.insert(step);
    was_so = was_so || is_so;
  }

  static bool has_different(const std::vector<TensorDifference>& tensors,
                            std::optional<Compared> quantity) {
    return std::ranges::any_of(tensors, [&](const TensorDifference& one) {
      return one.likeness == Likeness::different && one.quantity == quantity.value_or(one.quantity);
    });
  }

  std::set<std::size_t> kept_;
  bool differs_ = false, is_open_ = false, has_modules_ = false, differs_in_modules_ = false,
       loss_differs_ = false, statistic_differs_ = false, is_not_finite_ = false;
};

/// Keeps the steps that sentences name, and of the others those that a chart needs.
void thin(ComparedPair& diff) {
  if (diff.steps.size() <= kMostSteps) return;
  diff.all = AllSteps{static_cast<std::int64_t>(diff.steps.size()), {}};
  for (std::size_t i = 0; i < kLikenesses; ++i) {
    std::int64_t& tensors = diff.all->tensors.at(i);
    for (const StepDifference& step : diff.steps) tensors += step.count(static_cast<Likeness>(i));
  }
  std::set<std::size_t> kept = NamedSteps(diff).kept();
  ThinnedSteps<std::size_t> thinned(kMostSteps);
  for (std::size_t i = 0; i < diff.steps.size(); ++i) {
    const double apart = diff.steps[i].weights_apart.value_or(0);
    thinned.add(state_of(diff.steps[i]), apart, apart, apart, i);
  }
  for (const std::size_t i : thinned.take()) kept.insert(i);
  std::vector<StepDifference> steps;
  for (const std::size_t i : kept) steps.push_back(std::move(diff.steps[i]));
  diff.steps = std::move(steps);
}

}  // namespace

void conclude(ComparedPair& diff) {
  ClaimResult& result = diff.result;
  result.claim = claim_of(Compared::weight);
  result.verdict =
      diff.matched == 0 && !is_ended_by_fault(diff) ? Verdict::undecided : verdict_of(diff);
  result.comparisons = count(diff);
  if (result.verdict == Verdict::undecided) result.reason = verdict_in_words(diff);
  if (result.verdict == Verdict::violated) {
    if (is_ended_by_fault(diff)) result.findings.push_back(*diff.sides[1].fault);
    if (verdict_of_values(diff) == Verdict::violated && faulty_precondition(diff)) {
      result.findings.push_back(finding_of_samples(diff));
    } else if (verdict_of_values(diff) == Verdict::violated) {
      std::ranges::move(findings_of(*first_different(diff), diff),
                        std::back_inserter(result.findings));
    }
    result.claim = result.findings.front().claim;
  }
  thin(diff);
}

void conclude_repetition(ComparedPair& diff) {
  ClaimResult& result = diff.result = {};
  result.claim = claim_of(Compared::weight);
  result.comparisons = count(diff);
  const bool is_same = !diff.steps.empty() && count(diff, Likeness::rounding) == 0 &&
                       count(diff, Likeness::undecided) == 0 &&
                       count(diff, Likeness::different) == 0;
  result.verdict = is_same ? Verdict::holds : Verdict::undecided;
  if (!is_same) result.reason = verdict_in_words(diff);
}

}  // namespace lockstep
