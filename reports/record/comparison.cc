#include "reports/record/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

#include "reports/base/name_pattern.h"

namespace lockstep {

Claim claim_of(Compared quantity) {
  switch (quantity) {
    case Compared::loss:
      return equal_reference(Kind::loss, Phase::pre_forward);
    case Compared::gradient:
      return equal_reference(Kind::gradient, Phase::pre_step);
    case Compared::optimizer_state:
      return equal_reference(Kind::optimizer_state, Phase::post_step);
    case Compared::buffer:
    case Compared::statistic:
      return equal_reference(Kind::buffer, Phase::post_step);
    case Compared::output:
      return equal_reference(Kind::module_output, Phase::pre_forward);
    case Compared::output_gradient:
      return equal_reference(Kind::module_gradient, Phase::post_backward);
    case Compared::update:
    case Compared::weight:
      break;
  }
  return equal_reference(Kind::parameter, Phase::post_step);
}

int size_class_of(const TensorDifference& difference) {
  constexpr double kPerDecade = 4;
  constexpr double kSmallest = 1e-12;
  return static_cast<int>(
      std::floor(kPerDecade * std::log10(std::max(difference.relative, kSmallest))));
}

std::vector<const TensorDifference*> faults_of(const StepDifference& step) {
  std::vector<const TensorDifference*> faults;
  const auto add = [&](const TensorDifference& one) {
    const bool is_next = faults.empty() || faults.front()->quantity == one.quantity;
    if (one.likeness == Likeness::different && is_next) faults.push_back(&one);
  };
  for (const TensorDifference& one : step.tensors) {
    if (decides(one.quantity)) add(one);
  }
  std::ranges::stable_sort(faults, std::greater<>(),
                           [](const auto* one) { return size_class_of(*one); });
  if (!faults.empty()) return faults;
  for (const TensorDifference& one : step.modules.tensors) {
    if (one.quantity == Compared::output) add(one);
  }
  return faults;
}

std::string pattern_of_faults(const StepDifference& step) {
  const std::vector<const TensorDifference*> faults = faults_of(step);
  if (faults.empty()) return "";
  std::vector<std::string> names, others;
  for (const TensorDifference* one : faults) names.push_back(one->name);
  for (const TensorDifference& one : step.tensors) {
    const bool is_alike =
        one.quantity == faults.front()->quantity && one.likeness != Likeness::different;
    if (is_alike) others.push_back(one.name);
  }
  return others.empty() ? "" : pattern_of(names, others);
}

FindingKind kind_of(const TensorDifference& difference) {
  if (difference.kind) return *difference.kind;
  return difference.quantity == Compared::update ? FindingKind::wrong_update
                                                 : FindingKind::wrong_values;
}

FindingKind kind_of(const StepDifference& step) { return kind_of(*faults_of(step).front()); }

void StepDifference::leave_out_tensors() {
  std::array<std::int64_t, kLikenesses> found{};
  for (std::size_t i = 0; i < kLikenesses; ++i) found.at(i) = count(static_cast<Likeness>(i));
  counts = found;
  std::erase_if(tensors,
                [](const TensorDifference& one) { return decides(one.quantity) && one.is_finite; });
  tensors.shrink_to_fit();
  std::erase_if(modules.tensors,
                [](const TensorDifference& one) { return one.likeness <= Likeness::rounding; });
}

std::int64_t StepDifference::count(Likeness likeness) const {
  if (counts) return counts->at(static_cast<std::size_t>(likeness));
  return std::count_if(tensors.begin(), tensors.end(), [&](const TensorDifference& one) {
    return one.likeness == likeness && decides(one.quantity);
  });
}

const TensorDifference* ModuleDifferences::first(Compared quantity, Likeness likeness) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) {
    return one.quantity == quantity && one.likeness == likeness;
  });
  return found == tensors.end() ? nullptr : &*found;
}

std::int64_t ModuleDifferences::count(Compared quantity) const {
  return std::count_if(tensors.begin(), tensors.end(),
                       [&](const auto& one) { return one.quantity == quantity; });
}

std::int64_t ModuleDifferences::count(Compared quantity, Likeness likeness) const {
  return std::count_if(tensors.begin(), tensors.end(), [&](const auto& one) {
    return one.quantity == quantity && one.likeness == likeness;
  });
}

void match_names(const std::set<std::string>& a, const std::set<std::string>& b,
                 ComparedPair& diff) {
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(diff.unmatched[0]));
  std::set_difference(b.begin(), b.end(), a.begin(), a.end(),
                      std::back_inserter(diff.unmatched[1]));
  diff.matched = static_cast<std::int64_t>(a.size() - diff.unmatched[0].size());
}

bool is_of_weights(const ComparedPair& diff) {
  return diff.sides[0].tensors || diff.sides[1].tensors;
}

const StepDifference* first_different(const ComparedPair& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return one.count(Likeness::different) > 0 || one.modules.has_finding();
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

const StepDifference* first_undecided(const ComparedPair& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return !one.undecidable.empty() || one.count(Likeness::undecided) > 0;
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

bool has_same_bits(const ComparedPair& diff) {
  return !diff.steps.empty() && count(diff, Likeness::equal) == count(diff);
}

const Precondition* faulty_precondition(const ComparedPair& diff) {
  const auto found = std::ranges::find_if(diff.preconditions, &Precondition::is_fault);
  return found == diff.preconditions.end() ? nullptr : &*found;
}

bool is_void(const ComparedPair& diff) {
  return std::ranges::any_of(diff.preconditions, [](const Precondition& one) {
    return one.likeness == Likeness::different && !one.is_fault;
  });
}

const StepDifference* first_non_finite(const ComparedPair& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return std::any_of(one.tensors.begin(), one.tensors.end(),
                       [](const TensorDifference& tensor) { return !tensor.is_finite; });
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

std::optional<double> common_factor(const StepDifference& step) {
  constexpr double kSmallRest = 1e-3;
  std::optional<double> factor;
  std::size_t count = 0;
  for (const TensorDifference& one : step.tensors) {
    if (one.quantity != Compared::gradient || one.likeness == Likeness::no_evidence) continue;
    const bool is_multiple = one.likeness == Likeness::different && one.ratio && one.cosine &&
                             *one.cosine > 0 && one.rest && *one.rest <= kSmallRest;
    if (!is_multiple) return std::nullopt;
    if (!factor) factor = one.ratio;
    if (std::abs(*one.ratio - *factor) > kSmallRest * *factor) return std::nullopt;
    ++count;
  }
  return count > 1 ? factor : std::nullopt;
}

namespace {

/// Whether a tensor of a step differs by more than other values of its inputs explain.
bool has_certain(const StepDifference& step) {
  return std::any_of(step.tensors.begin(), step.tensors.end(), [](const auto& one) {
    // A shape, or a gradient or a state that one side lacks.
    const bool is_structural = one.kind == FindingKind::other_shape ||
                               one.kind == FindingKind::nothing_arrived ||
                               one.kind == FindingKind::states_differ;
    return decides(one.quantity) && one.likeness == Likeness::different &&
           (one.multiple || !one.ranks.empty() || one.has_equal_inputs || is_structural);
  });
}

}  // namespace

bool may_be_samples(const ComparedPair& diff) {
  const StepDifference* const step = first_different(diff);
  const bool is_unknown = std::any_of(
      diff.preconditions.begin(), diff.preconditions.end(), [](const Precondition& one) {
        return one.prerequisite == Prerequisite::samples && one.likeness == Likeness::undecided;
      });
  return step && is_unknown && !step->most_gradients_agree && !has_certain(*step) &&
         !common_factor(*step);
}

bool may_be_precision(const ComparedPair& diff) {
  const StepDifference* const step = first_different(diff);
  return step && !diff.precisions.empty() && !has_certain(*step);
}

bool may_be_hyperparameters(const ComparedPair& diff) {
  return !diff.hyperparameters.empty() && count(diff, Likeness::rounding) > 0;
}

std::int64_t steps_compared(const ComparedPair& diff) {
  return diff.all ? diff.all->count : static_cast<std::int64_t>(diff.steps.size());
}

std::int64_t count(const ComparedPair& diff, Likeness likeness) {
  if (diff.all) return diff.all->tensors.at(static_cast<std::size_t>(likeness));
  std::int64_t found = 0;
  for (const StepDifference& step : diff.steps) found += step.count(likeness);
  return found;
}

std::int64_t count(const ComparedPair& diff) {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < kLikenesses; ++i) all += count(diff, static_cast<Likeness>(i));
  return all;
}

namespace {

bool is_ended(SideOutcome outcome) {
  return outcome == SideOutcome::raised || outcome == SideOutcome::out_of_memory ||
         outcome == SideOutcome::hung;
}

}  // namespace

bool is_ended_by_fault(const ComparedPair& diff) {
  const auto& [a, b] = diff.sides;
  return is_ended(b.outcome) && b.fault && !is_ended(a.outcome);
}

bool has_died_alone(const ComparedPair& diff) {
  const auto& [a, b] = diff.sides;
  return b.outcome == SideOutcome::died && b.fault && a.outcome != SideOutcome::died &&
         !is_ended(a.outcome);
}

Verdict verdict_of(const ComparedPair& diff) {
  return is_ended_by_fault(diff) ? Verdict::violated : verdict_of_values(diff);
}

Verdict verdict_of_values(const ComparedPair& diff) {
  if (is_void(diff) || may_be_samples(diff) || may_be_precision(diff)) return Verdict::undecided;
  if (first_different(diff) || faulty_precondition(diff)) return Verdict::violated;
  const bool is_decided = !diff.steps.empty() && count(diff, Likeness::undecided) == 0 &&
                          !may_be_hyperparameters(diff) && !has_died_alone(diff) &&
                          std::all_of(diff.steps.begin(), diff.steps.end(),
                                      [](const auto& step) { return step.undecidable.empty(); });
  return is_decided ? Verdict::holds : Verdict::undecided;
}

namespace {

/// That of one comparison, whatever was expected. A fault decides though no name matched.
ExitStatus status_of(const ComparedPair& pair) {
  if (pair.matched == 0 && pair.result.verdict != Verdict::violated) {
    return ExitStatus::not_applicable;
  }
  return status_of(pair.result.verdict);
}

/// Whether B is as expected, which is a bug.
bool shows(const ComparedPair& pair, ComparisonExpectation expected) {
  const SideOutcome outcome = pair.sides[1].outcome;
  const StepDifference* const step = first_different(pair);
  switch (expected) {
    case ComparisonExpectation::raises:
      return outcome == SideOutcome::raised || outcome == SideOutcome::out_of_memory;
    case ComparisonExpectation::hangs:
      return outcome == SideOutcome::hung;
    case ComparisonExpectation::not_finite:
    case ComparisonExpectation::diverges:
      return step && (kind_of(*step) == FindingKind::not_finite) ==
                         (expected == ComparisonExpectation::not_finite);
    case ComparisonExpectation::agrees:
    case ComparisonExpectation::bug:
      break;
  }
  return true;
}

/// Met, not met, or undecided.
ExitStatus status_of_bug(const ComparedPair& pair, ComparisonExpectation expected) {
  const ExitStatus status = status_of(pair);
  if (status == ExitStatus::as_expected) return ExitStatus::failed;
  if (status != ExitStatus::failed) return status;
  return shows(pair, expected) ? ExitStatus::as_expected : ExitStatus::failed;
}

/// Whether B was seen to be faulty: by its values, or by how it went on its own.
bool is_faulty(const ComparedPair& pair) {
  return pair.result.verdict == Verdict::violated || pair.sides[1].outcome != SideOutcome::trained;
}

/// Whether the reference and the repetitions bear an outcome.
bool is_sure(FixOutcome outcome, const FixedCode& code) {
  const bool is_fault = outcome == FixOutcome::still_there || outcome == FixOutcome::new_fault;
  if (is_fault) return code.unrepeatable != Unrepeatable::after;
  return outcome != FixOutcome::fixed || has_measure(code);
}

/// A signal may come from outside, so it is no fault of the code alone.
bool is_still_faulty(const ComparedPair& before, const ComparedPair& after) {
  const bool has_died =
      after.sides[1].outcome == SideOutcome::died && after.result.verdict != Verdict::violated;
  return is_faulty(after) && (!has_died || before.sides[1].outcome == SideOutcome::died);
}

/// Whether a side trained, as far as it was seen alone.
bool is_well(const ComparedSide& side) { return side.outcome == SideOutcome::trained; }

/// Nothing says that the state after the fix is right, so it is never called fixed.
FixOutcome outcome_without_reference(const ComparedPair& pair) {
  const bool was_there = !is_well(pair.sides[0]);
  if (!is_well(pair.sides[1])) return was_there ? FixOutcome::still_there : FixOutcome::new_fault;
  const bool are_equal = !was_there && pair.result.verdict == Verdict::holds;
  return are_equal ? FixOutcome::not_shown : FixOutcome::not_decided;
}

FixOutcome outcome_by_values(const Comparison& comparison) {
  if (has_no_reference(comparison)) return outcome_without_reference(comparison.pairs.front());
  const ComparedPair& before = comparison.pairs.front();
  const ComparedPair& after = comparison.pairs.back();
  if (is_ended(after.sides[0].outcome)) return FixOutcome::not_decided;  // there is no measure
  const bool was_there = is_faulty(before);
  if (is_still_faulty(before, after)) {
    return was_there ? FixOutcome::still_there : FixOutcome::new_fault;
  }
  if (!was_there) return FixOutcome::not_shown;
  const bool is_right = after.result.verdict == Verdict::holds && !is_faulty(after);
  return is_right ? FixOutcome::fixed : FixOutcome::not_decided;
}

ExitStatus status_of_fix(const Comparison& comparison) {
  const ComparedPair& before = comparison.pairs.front();
  const ComparedPair& after = comparison.pairs.back();
  switch (outcome_of_fix(comparison)) {
    case FixOutcome::fixed:
      return ExitStatus::as_expected;
    case FixOutcome::still_there:
    case FixOutcome::new_fault:
      return ExitStatus::failed;
    case FixOutcome::not_shown:
      if (comparison.code && is_unexecuted(*comparison.code)) return ExitStatus::failed;
      if (has_no_reference(comparison)) return ExitStatus::failed;
      return worse(status_of_bug(before, ComparisonExpectation::bug), status_of(after));
    case FixOutcome::refused:
      return ExitStatus::undecided;
    case FixOutcome::not_decided:
      break;
  }
  return ExitStatus::undecided;
}

}  // namespace

bool is_of_fix(const Comparison& comparison) {
  return comparison.purpose == ComparisonPurpose::fix && !comparison.pairs.empty();
}

bool has_no_reference(const Comparison& comparison) {
  return is_of_fix(comparison) && comparison.pairs.size() == 1;
}

bool is_unexecuted(const FixedCode& code) {
  if (!code.is_seen || code.has_other_files) return false;
  const bool has_no_line = code.lines && code.lines->count > 0 && code.lines->executed == 0;
  return code.executed.empty() || has_no_line;
}

bool has_measure(const FixedCode& code) {
  return !code.changes_reference && code.reference_before == SideOutcome::trained;
}

FixOutcome outcome_of_fix(const Comparison& comparison) {
  const FixOutcome outcome = outcome_by_values(comparison);
  if (!comparison.code) return outcome;
  if (!comparison.code->shared.empty()) return FixOutcome::refused;
  if (is_unexecuted(*comparison.code)) return FixOutcome::not_shown;
  return is_sure(outcome, *comparison.code) ? outcome : FixOutcome::not_decided;
}

std::optional<FixOutcome> outcome_of_fixes(const std::vector<Comparison>& comparisons) {
  // The first of these that a cell has.
  constexpr std::array kOrder{FixOutcome::still_there, FixOutcome::new_fault,
                              FixOutcome::refused,     FixOutcome::not_decided,
                              FixOutcome::fixed,       FixOutcome::not_shown};
  std::set<FixOutcome> found;
  for (const Comparison& one : comparisons) {
    if (is_of_fix(one)) found.insert(outcome_of_fix(one));
  }
  const auto* const first =
      std::ranges::find_if(kOrder, [&](FixOutcome outcome) { return found.contains(outcome); });
  return first == kOrder.end() ? std::nullopt : std::optional(*first);
}

ExitStatus status_of(const std::vector<Comparison>& comparisons) {
  const bool is_fixed = outcome_of_fixes(comparisons) == FixOutcome::fixed;
  ExitStatus status = ExitStatus::as_expected;
  for (const Comparison& one : comparisons) {
    const bool is_shown_elsewhere = is_fixed && is_of_fix(one) &&
                                    outcome_of_fix(one) == FixOutcome::not_shown &&
                                    status_of(one.pairs.back()) == ExitStatus::as_expected;
    if (!is_shown_elsewhere) status = worse(status, status_of(one));
  }
  return status;
}

ExitStatus status_of(const Comparison& comparison) {
  if (comparison.purpose == ComparisonPurpose::repetition) return ExitStatus::as_expected;
  if (comparison.pairs.empty()) return ExitStatus::undecided;
  if (comparison.purpose == ComparisonPurpose::fix) return status_of_fix(comparison);
  const ComparedPair& pair = comparison.pairs.front();
  return comparison.expected == ComparisonExpectation::agrees
             ? status_of(pair)
             : status_of_bug(pair, comparison.expected);
}

}  // namespace lockstep
