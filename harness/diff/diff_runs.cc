#include "harness/diff/diff_runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "harness/compare/noise.h"
#include "harness/diff/hyperparameters.h"
#include "harness/diff/precision.h"
#include "harness/diff/preconditions.h"
#include "harness/diff/side_outcome.h"
#include "harness/diff/step_comparison.h"
#include "reports/comparison/conclude.h"

namespace lockstep {

namespace {

/// The distances between a repetition and the side that it is nearer to.
class Repetition {
 public:
  /// All arguments outlive this.
  Repetition(const SideFiles& run, const SideFiles& a, const SideFiles& b,
             const DiffRequest& request)
      : with_a_(a, run, request), with_b_(b, run, request) {}

  void add(std::int64_t step, std::int64_t other, const SideFiles& run, Noise& noise) {
    if (!run.has(step)) return;
    add(with_a_.compare(step, step, {}), with_b_.compare(other, step, {}), noise);
  }

 private:
  static void add(const StepDifference& a, const StepDifference& b, Noise& noise) {
    std::map<std::pair<Compared, std::string>, const TensorDifference*> nearer;
    for (const StepDifference* one : {&a, &b}) {
      for (const TensorDifference& tensor : one->tensors) {
        const auto [place, is_new] =
            nearer.emplace(std::pair{tensor.quantity, tensor.name}, &tensor);
        if (!is_new && tensor.relative < place->second->relative) place->second = &tensor;
      }
    }
    for (const auto& [key, tensor] : nearer) noise.add(*tensor);
    if (a.weights_apart && b.weights_apart) {
      const double apart = std::min(*a.weights_apart, *b.weights_apart);
      noise.weights_apart = std::max(noise.weights_apart, apart);
    }
  }

  StepComparison with_a_;
  StepComparison with_b_;
};

/// Leaves out the tensors of most steps: a report shows those of the first one that differs or is
/// undecided, and a long training would fill the memory.
class KeptTensors {
 public:
  void look(StepDifference& step) {
    const bool differs = step.count(Likeness::different) > 0 || step.modules.has_finding();
    const bool is_open = step.count(Likeness::undecided) > 0;
    const bool has_module = step.modules.first(Compared::output, Likeness::different) ||
                            step.modules.first(Compared::output_gradient, Likeness::different);
    bool is_shown = is_new(differs, has_different_);
    is_shown = is_new(is_open, has_undecided_) || is_shown;
    is_shown = is_new(has_module, has_module_) || is_shown;
    const bool is_first = std::exchange(is_first_, false);
    if (!is_first && !is_shown) step.leave_out_tensors();
  }

 private:
  /// Whether something is so for the first time.
  static bool is_new(bool is_so, bool& was_so) {
    const bool result = is_so && !was_so;
    was_so = was_so || is_so;
    return result;
  }

  bool is_first_ = true;
  bool has_different_ = false;
  bool has_undecided_ = false;
  bool has_module_ = false;
};

/// The compared steps up to the first difference: later samples cannot be its cause.
std::vector<std::pair<std::int64_t, std::int64_t>> steps_of(const ComparedPair& diff) {
  const StepDifference* const last = first_different(diff);
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const StepDifference& step : diff.steps) {
    steps.emplace_back(step.step, step.other);
    if (&step == last) break;
  }
  return steps;
}

/// That a side has fewer steps, unless its end says why.
void add_last_steps(const SideFiles& a, const SideFiles& b, const DiffRequest& request,
                    ComparedPair& diff) {
  const bool have_ended = std::ranges::any_of(
      diff.sides, [](const ComparedSide& side) { return side.outcome > SideOutcome::not_finite; });
  if (have_ended || request.until != 0) return;
  auto last = compare_last_steps(a, b, request.offset);
  if (last) diff.preconditions.push_back(std::move(*last));
}

}  // namespace

ComparedPair diff_runs(const SideFiles& a, const SideFiles& b,
                       const std::vector<const SideFiles*>& noise, const DiffRequest& request) {
  ComparedPair diff;
  diff.sides = {side_of(a), side_of(b)};
  for (std::size_t i = 0; i < diff.sides.size(); ++i) {
    const SideFiles* const second = request.with_modules.at(i);
    if (second && side_of(*second).has_modules) diff.sides.at(i).has_modules = true;
  }
  const auto has_tensor = [&](const std::string& name) {
    return a.has_named(name) || b.has_named(name);
  };
  add_outcome(a.job(), has_tensor, diff.sides[0]);
  add_outcome(b.job(), has_tensor, diff.sides[1]);
  for (const SideFiles* run : noise) {
    const bool is_named = !diff.noise.empty() && diff.noise.back() == run->shown();
    if (!is_named) diff.noise.push_back(run->shown());
  }
  StepComparison comparison(a, b, request);
  const auto steps = comparison.steps();
  std::vector<Repetition> repetitions;
  for (const SideFiles* run : noise) repetitions.emplace_back(*run, a, b, request);
  Noise measured;
  measured.is_perturbed = std::count_if(noise.begin(), noise.end(), [](const SideFiles* run) {
                            return run->job().perturbed.value_or(0) > 0;
                          }) >= kFewestPerturbations;
  KeptTensors keeper;
  for (const auto& [step, other] : steps) {
    for (std::size_t i = 0; i < noise.size(); ++i) {
      repetitions[i].add(step, other, *noise[i], measured);
    }
    diff.steps.push_back(comparison.compare(step, other, measured));
    keeper.look(diff.steps.back());
  }
  diff.preconditions = {compare_configurations(a.job(), b.job(), request.offset),
                        comparison.initial_weights(), compare_samples(a, b, steps_of(diff))};
  if (auto states = compare_random_states(a, b, steps_of(diff))) {
    diff.preconditions.push_back(std::move(*states));
  }
  add_last_steps(a, b, request, diff);
  const auto& without_evidence = comparison.without_evidence();
  diff.without_evidence = {without_evidence.begin(), without_evidence.end()};
  diff.gradient_scale = comparison.gradient_scale();
  diff.precisions = differing_precisions(a.job(), b.job());
  diff.hyperparameters = differing_hyperparameters(a.job(), b.job(), request.offset);
  match_names(comparison.parameters()[0], comparison.parameters()[1], diff);
  diff.unmapped = request.names.unknown([&](const std::string& name) { return a.has_named(name); });
  conclude(diff);
  return diff;
}

}  // namespace lockstep
