#include "harness/diff/diff_record.h"

#include <algorithm>
#include <iterator>

namespace lockstep {

void StepDifference::leave_out_tensors() {
  std::array<std::int64_t, kLikenesses> found{};
  for (std::size_t i = 0; i < kLikenesses; ++i) found.at(i) = count(static_cast<Likeness>(i));
  counts = found;
  std::erase_if(tensors, [](const TensorDifference& one) {
    return one.quantity != Compared::loss && one.is_finite;
  });
  tensors.shrink_to_fit();
  std::erase_if(modules.tensors,
                [](const TensorDifference& one) { return one.likeness <= Likeness::rounding; });
}

std::int64_t StepDifference::count(Likeness likeness) const {
  if (counts) return counts->at(static_cast<std::size_t>(likeness));
  return std::count_if(tensors.begin(), tensors.end(), [&](const TensorDifference& one) {
    return one.likeness == likeness && one.quantity != Compared::loss;
  });
}

std::int64_t StepDifference::count() const {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < kLikenesses; ++i) all += count(static_cast<Likeness>(i));
  return all;
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

void match_names(const std::set<std::string>& a, const std::set<std::string>& b, DiffRecord& diff) {
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(diff.unmatched[0]));
  std::set_difference(b.begin(), b.end(), a.begin(), a.end(),
                      std::back_inserter(diff.unmatched[1]));
  diff.matched = static_cast<std::int64_t>(a.size() - diff.unmatched[0].size());
}

bool is_of_weights(const DiffRecord& diff) {
  return diff.sides[0].tensors || diff.sides[1].tensors;
}

const StepDifference* first_different(const DiffRecord& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return one.count(Likeness::different) > 0 || one.modules.has_finding();
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

bool is_void(const DiffRecord& diff) {
  return std::any_of(diff.preconditions.begin(), diff.preconditions.end(),
                     [](const auto& one) { return one.likeness == Likeness::different; });
}

const StepDifference* first_non_finite(const DiffRecord& diff) {
  const auto step = std::find_if(diff.steps.begin(), diff.steps.end(), [](const auto& one) {
    return std::any_of(one.tensors.begin(), one.tensors.end(),
                       [](const TensorDifference& tensor) { return !tensor.is_finite; });
  });
  return step == diff.steps.end() ? nullptr : &*step;
}

namespace {

/// Whether a tensor of a step differs by more than other values of its inputs explain.
bool has_certain(const StepDifference& step) {
  return std::any_of(step.tensors.begin(), step.tensors.end(), [](const auto& one) {
    const bool is_structural =
        one.kind == FindingKind::other_shape || one.kind == FindingKind::nothing_arrived;
    return one.quantity != Compared::loss && one.likeness == Likeness::different &&
           (one.is_multiple || !one.ranks.empty() || one.has_equal_inputs || is_structural);
  });
}

}  // namespace

bool may_be_samples(const DiffRecord& diff) {
  const StepDifference* const step = first_different(diff);
  const bool is_unknown = std::any_of(
      diff.preconditions.begin(), diff.preconditions.end(), [](const Precondition& one) {
        return one.prerequisite == Prerequisite::samples && one.likeness == Likeness::undecided;
      });
  return step && is_unknown && !has_certain(*step);
}

bool may_be_precision(const DiffRecord& diff) {
  const StepDifference* const step = first_different(diff);
  return step && !diff.precisions.empty() && !has_certain(*step);
}

bool may_be_hyperparameters(const DiffRecord& diff) {
  return !diff.hyperparameters.empty() &&
         std::any_of(diff.steps.begin(), diff.steps.end(),
                     [](const auto& step) { return step.count(Likeness::rounding) > 0; });
}

Verdict verdict_of(const DiffRecord& diff) {
  if (is_void(diff) || may_be_samples(diff) || may_be_precision(diff)) return Verdict::undecided;
  if (first_different(diff)) return Verdict::violated;
  const bool is_decided = std::all_of(diff.steps.begin(), diff.steps.end(), [](const auto& step) {
    return step.undecidable.empty() && step.count(Likeness::undecided) == 0;
  });
  const bool holds = is_decided && !diff.steps.empty() && !may_be_hyperparameters(diff);
  return holds ? Verdict::holds : Verdict::undecided;
}

}  // namespace lockstep
