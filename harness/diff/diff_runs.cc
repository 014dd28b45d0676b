#include "harness/diff/diff_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/compare/compare_values.h"
#include "harness/compare/noise.h"
#include "harness/diff/compare_modules.h"
#include "harness/diff/compare_updates.h"
#include "harness/diff/hyperparameters.h"
#include "harness/diff/precision.h"
#include "harness/diff/preconditions.h"
#include "harness/diff/side_outcome.h"
#include "harness/diff/step_pairs.h"
#include "reports/comparison/conclude.h"

namespace lockstep {

namespace {

/// The larger norms of all tensors together that are of one quantity; of optimizer states, moments
/// of one kind.
class NormsOfAll {
 public:
  explicit NormsOfAll(const std::vector<TensorPair>& pairs) {
    for (const TensorPair& pair : pairs) {
      auto& [of_a, of_b] = squares_[key_of(pair)];
      of_a += pair.a.norm * pair.a.norm;
      of_b += pair.b.norm * pair.b.norm;
    }
  }

  double beside(const TensorPair& pair) const {
    const auto& [of_a, of_b] = squares_.at(key_of(pair));
    return std::sqrt(std::max(of_a, of_b));
  }

 private:
  static std::pair<Compared, std::string> key_of(const TensorPair& pair) {
    const bool is_state = pair.quantity == Compared::optimizer_state;
    return {pair.quantity, is_state ? pair.name.substr(parameter_of(pair).size()) : ""};
  }

  std::map<std::pair<Compared, std::string>, std::pair<double, double>> squares_;
};

/// If ranks of B hold different values of a tensor, the one that is furthest from A's counts.
/// `is_fault`: each of them is one, whatever its distance. `compare`: one of B with that of A.
template <class Compare>
TensorDifference compare_pair(const TensorPair& pair, bool is_fault, const Compare& compare) {
  TensorDifference found = compare(pair.b);
  const std::string problem = found.cause;
  for (const WholeTensor& value : pair.of_ranks) {
    if (value.elements != pair.a.elements || value.shape != pair.a.shape) continue;
    TensorDifference one = compare(value);
    const bool is_different = is_fault || one.likeness == Likeness::different;
    if (!is_different || one.relative <= found.relative) continue;
    found = std::move(one);
    found.likeness = Likeness::different;
    found.ranks = {value.rank};
    found.kind = FindingKind::weights_differ;
    found.multiple.reset();
    found.cause = problem;
  }
  found.quantity = pair.quantity;
  found.name = pair.name;
  return found;
}

/// The module of a parameter: "attn.k" of "attn.k.bias".
std::string module_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

/// Root mean squares of the gradients of a step, for the smaller side.
class GradientScales {
 public:
  explicit GradientScales(const std::vector<TensorPair>& pairs) {
    for (const TensorPair& pair : pairs) {
      if (pair.quantity != Compared::gradient) continue;
      const double scale = std::min(root_mean_square(pair.a), root_mean_square(pair.b));
      modules_[module_of(pair.name)].emplace_back(pair.name, scale);
      largest_ = std::max(largest_, scale);
    }
  }

  /// Of the other gradients of its module; without any, of all.
  double beside(const std::string& parameter) const {
    double scale = 0;
    const auto& module = modules_.at(module_of(parameter));
    for (const auto& [name, of_one] : module) {
      if (name != parameter) scale = std::max(scale, of_one);
    }
    return module.size() > 1 ? scale : largest_;
  }

 private:
  std::map<std::string, std::vector<std::pair<std::string, double>>> modules_;
  double largest_ = 0;
};

/// Whether a third of the elements, each moved by as much as the others, explains a difference:
/// queries, keys and values are as many. The cosine is at least 2/3 then, but for its own estimate.
bool may_be_noise_in_part(const TensorDifference& one) {
  constexpr double kSmallestCosine = 0.5;
  return one.cosine && *one.cosine >= kSmallestCosine && !one.multiple && !one.kind;
}

/// The gradients of a parameter in all steps so far.
struct GradientsSoFar {
  bool are_equal = true;            ///< the same bits
  bool differ = false;              ///< by more than rounding
  std::optional<double> apart = 0;  ///< the largest distance, over their norm; absent: unknown
  std::int64_t step = 0;            ///< the last one
};

class StepComparison {
 public:
  /// `request` outlives this.
  StepComparison(const SideFiles& a, const SideFiles& b, const DiffRequest& request)
      : a_(a),
        b_(b),
        request_(request),
        steps_a_(a, request.names, false),
        steps_b_(b, request.names, true),
        ranks_(std::max(a.job().world_size, b.job().world_size)),
        is_by_element_(has_optimizers_by_element(a.job()) && has_optimizers_by_element(b.job())),
        has_scale_(has_scaled_gradients(a.job()) || has_scaled_gradients(b.job())) {}

  std::vector<std::pair<std::int64_t, std::int64_t>> steps() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> both;
    for (const std::int64_t step : a_.steps()) {
      const bool is_wanted = request_.until == 0 || step <= request_.until;
      if (is_wanted && b_.has(step + request_.offset))
        both.emplace_back(step, step + request_.offset);
    }
    return both;
  }

  /// `noise`: of repetitions in this step; empty: there are none.
  StepDifference compare(std::int64_t step, std::int64_t other, const Noise& noise) {
    const SideStep a = steps_a_.at(step), b = steps_b_.at(other);
    begin(step, other, a, b);
    StepDifference found;
    found.step = step;
    found.other = other;
    found.weights_apart = parameters_apart(a.before, b.before, without_evidence_);
    rounding_ = {found.weights_apart.value_or(0),
                 std::max(computed_roundoff(a_.job(), step), computed_roundoff(b_.job(), other))};
    std::vector<TensorPair> pairs = pairs_of(a, b);
    if (!hold_copies(b)) {
      for (TensorPair& pair : pairs) pair.of_ranks.clear();
    }
    found.undecidable =
        why_unknown(found.weights_apart, pairs, {a.before_unknown, b.before_unknown});
    const StepRounding of_modules = rounding_;
    const bool is_far = found.undecidable.empty() && may_be_all_rounding(pairs);
    if (is_far || noise.is_perturbed) rounding_.weights_apart = 0;
    if (noise.is_perturbed) {
      found.undecidable = noise.why_unstable();
    } else if (noise.moves()) {
      found.undecidable.clear();
    } else if (is_far) {
      found.undecidable = why_far(*found.weights_apart);
    }
    compare_all(pairs, a, b, noise, found);
    if (request_.are_same_values) hold_to_bits(pairs, found);
    // Tensors that are as near as those of equal parameters are decided all the same.
    const bool is_settled = is_far && !noise.is_perturbed;
    if (is_settled && found.count(Likeness::undecided) == 0) found.undecidable.clear();
    found.modules = modules_of(a, b, step, other, of_modules);
    // Repetitions say nothing about modules.
    found.modules.decides =
        found.modules.decides && found.undecidable.empty() && noise.distances.empty();
    return found;
  }

  const Precondition& initial_weights() const { return initial_weights_; }
  const std::array<std::set<std::string>, 2>& parameters() const { return parameters_; }  ///< names
  const std::set<std::string>& without_evidence() const { return without_evidence_; }
  std::optional<double> gradient_scale() const { return gradient_scale_; }

 private:
  void begin(std::int64_t step, std::int64_t other, const SideStep& a, const SideStep& b) {
    if (is_first_) note_first(a, b);
    is_from_start_ = is_first_ ? step <= 1 && other <= 1 : is_from_start_ && step == last_ + 1;
    has_gap_ = has_gap_ || (!is_first_ && step != last_ + 1);
    is_first_ = false;
    last_ = step;
    gradients_apart_ = 0;
    gradients_of_ranks_.clear();
  }

  ModuleDifferences modules_of(const SideStep& a, const SideStep& b, std::int64_t step,
                               std::int64_t other, const StepRounding& rounding) const {
    const auto& [second_a, second_b] = request_.with_modules;
    const bool has_second = second_a && second_b && second_a->has(step) && second_b->has(other);
    return has_second ? compare_modules(*second_a->at(step), *second_b->at(other), rounding)
                      : compare_modules(*a.view, *b.view, rounding);
  }

  JobSizes sizes_of(const SideStep& a, const SideStep& b) const {
    JobSizes sizes{ranks_};
    for (const SideFiles* side : {&b_, &a_}) side->add_sizes(sizes);
    for (const SideStep* side : {&b, &a}) add_sizes(*side->view, sizes.others);
    return sizes;
  }

  /// Gradients come before updates.
  void compare_all(const std::vector<TensorPair>& pairs, const SideStep& a, const SideStep& b,
                   const Noise& noise, StepDifference& found) {
    const JobSizes sizes = sizes_of(a, b);
    const NormsOfAll norms(pairs);
    const GradientScales scales(pairs);
    for (const TensorPair& pair : pairs) {
      const double all = norms.beside(pair);
      TensorDifference one = compare_one(pair, a, b, noise, all, sizes);
      leave_out_noise(pair, scales, one);
      if (pair.quantity == Compared::gradient) note_gradient(pair, one);
      if (!found.undecidable.empty() && one.likeness == Likeness::different) {
        one.likeness = Likeness::undecided;
      }
      follow_gradient(parameter_of(pair), one);
      const bool is_rounding =
          one.quantity == Compared::gradient && one.likeness == Likeness::rounding;
      if (is_rounding) gradients_apart_ = std::max(gradients_apart_, one.relative);
      found.tensors.push_back(std::move(one));
    }
    leave_out_fused_noise(pairs, found);
    leave_out_scale(found);
  }

  TensorDifference compare_one(const TensorPair& pair, const SideStep& a, const SideStep& b,
                               const Noise& noise, double all, const JobSizes& sizes) {
    switch (pair.quantity) {
      case Compared::update:
        return compare_update(pair, inputs_of(pair, a, b), a, noise, all, sizes);
      case Compared::optimizer_state:
        return compare_state(pair, inputs_of(pair, a, b), noise, all, sizes);
      default:
        return compare_observed(pair, noise, all, sizes);
    }
  }

  /// What could be compared and does not have the same bits is different.
  static void hold_to_bits(const std::vector<TensorPair>& pairs, StepDifference& found) {
    if (!pairs.empty()) found.undecidable.clear();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      TensorDifference& one = found.tensors[i];
      const bool is_open = one.likeness != Likeness::equal && one.likeness != Likeness::different;
      if (!is_open || !pairs[i].a.problem.empty() || !pairs[i].b.problem.empty()) continue;
      one.likeness = Likeness::different;
      one.tolerance = 0;
      one.cause.clear();
    }
  }

  /// Gradients that a GradScaler scaled are observed before a fused step takes the scale back.
  void leave_out_scale(StepDifference& found) {
    if (!has_scale_ || !found.undecidable.empty()) return;
    const auto factor = common_factor(found);
    const bool has_equal_updates = std::ranges::all_of(found.tensors, [](const auto& one) {
      return one.quantity != Compared::update || one.likeness <= Likeness::no_evidence;
    });
    if (!factor || !has_equal_updates) return;
    gradient_scale_ = factor;
    for (TensorDifference& one : found.tensors) {
      const bool is_scaled =
          one.quantity == Compared::gradient && one.likeness == Likeness::different;
      if (is_scaled) one.likeness = Likeness::rounding;
    }
  }

  /// The bias of a fused layer has elements without evidence if keys are in it: its update is noise
  /// in part, while the gradient agrees as a whole, and the update of the layer's weight does not
  /// differ.
  void leave_out_fused_noise(const std::vector<TensorPair>& pairs, StepDifference& found) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      TensorDifference& one = found.tensors[i];
      const bool is_open = one.quantity == Compared::update && one.likeness > Likeness::rounding &&
                           one.ranks.empty() && may_be_noise_in_part(one);
      const GradientsSoFar& gradients = gradients_[one.name];
      const bool agrees = gradients.step == last_ && !gradients.are_equal && !gradients.differ;
      if (!is_open || !agrees || !has_right_weight(i, pairs, found)) continue;
      call_noise("elements of its gradient are 0 up to rounding", one);
      without_evidence_.insert(one.name);
    }
  }

  static bool has_right_weight(std::size_t bias, const std::vector<TensorPair>& pairs,
                               const StepDifference& found) {
    constexpr std::int64_t kOfWeight = 4;  // times as many elements, at least
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool is_weight = pairs[i].quantity == Compared::update &&
                             module_of(pairs[i].name) == module_of(pairs[bias].name) &&
                             pairs[i].a.elements >= kOfWeight * pairs[bias].a.elements;
      if (is_weight && found.tensors[i].likeness < Likeness::different) return true;
    }
    return false;
  }

  /// An update and a state follow from all gradients so far: after one without evidence they have
  /// none, unless ranks of B disagree about it.
  void leave_out_noise(const TensorPair& pair, const GradientScales& scales,
                       TensorDifference& one) {
    if (pair.quantity == Compared::gradient && one.likeness != Likeness::equal) {
      const double bound =
          rounding_of_layouts(pair.a, pair.b, {.roundoff = rounding_.roundoff}).base;
      if (is_without_evidence(pair.a, pair.b, bound, scales.beside(pair.name))) {
        one.likeness = Likeness::no_evidence;
        without_evidence_.insert(pair.name);
      }
    }
    const bool is_noise = follows_gradients(one) && one.likeness > Likeness::rounding &&
                          one.ranks.empty() && without_evidence_.contains(parameter_of(pair));
    if (is_noise || one.likeness == Likeness::no_evidence) {
      call_noise("its gradient is 0 up to rounding", one);
    }
  }

  static void call_noise(const char* cause, TensorDifference& one) {
    one.likeness = Likeness::no_evidence;
    one.cause = cause;
    one.multiple.reset();
    one.kind.reset();
  }

  /// A gradient or a loss. Ranks of B may rightly hold different gradients: some optimizers want
  /// only their own part.
  TensorDifference compare_observed(const TensorPair& pair, const Noise& noise, double all,
                                    const JobSizes& sizes) {
    const Bound bound = noise.widened(rounding_of_layouts(pair.a, pair.b, rounding_).bound(),
                                      pair.quantity, pair.name);
    const auto compare = [&](const WholeTensor& value) {
      return compare_values(pair.a, value, bound, all, sizes);
    };
    const TensorDifference of_ranks = compare_pair(pair, false, compare);
    if (!of_ranks.ranks.empty()) gradients_of_ranks_.insert(pair.name);
    TensorDifference found = compare(pair.b);
    found.quantity = pair.quantity;
    found.name = pair.name;
    return found;
  }

  static bool follows_gradients(const TensorDifference& one) {
    return one.quantity == Compared::update || one.quantity == Compared::optimizer_state;
  }

  /// If a gradient so far was undecided, so is what follows from it, unless ranks of B disagree
  /// about it.
  void follow_gradient(const std::string& parameter, TensorDifference& one) {
    if (one.quantity == Compared::gradient && one.likeness == Likeness::undecided) {
      open_gradients_.insert(one.name);
    }
    const bool is_open = follows_gradients(one) && open_gradients_.contains(parameter);
    if (!is_open || one.likeness != Likeness::different || !one.ranks.empty()) return;
    one.likeness = Likeness::undecided;
    one.cause = "its gradient is undecided";
  }

  /// Whether ranks held the same values before their first step. Other ranks may hold parts of the
  /// model under the same names, some of which begin with the same values, such as 0.
  bool hold_copies(const SideStep& b) {
    if (!hold_copies_ && !b.before.all().empty()) {
      hold_copies_ =
          std::all_of(b.before.all().begin(), b.before.all().end(), [&](const auto& one) {
            const bool is_parameter = one.first.kind == Kind::parameter;
            return !is_parameter || before_step(b.before, one.first.name)->others.empty();
          });
    }
    return hold_copies_.value_or(false);
  }

  /// `reasons`: why the parameters before the step are not known in A, and in B.
  static std::string why_unknown(const std::optional<double>& apart,
                                 const std::vector<TensorPair>& pairs,
                                 const std::array<std::string, 2>& reasons) {
    if (pairs.empty()) return "no tensor was observed on both sides";
    if (apart) return "";
    for (std::size_t side = 0; side < reasons.size(); ++side) {
      if (reasons.at(side).empty()) continue;
      return fmt::format("the parameters before it are not known in {}: {}", side == 0 ? "A" : "B",
                         reasons.at(side));
    }
    return "the parameters before it are not known on both sides";
  }

  bool may_be_all_rounding(const std::vector<TensorPair>& pairs) const {
    return rounding_of_layouts(pairs[0].a, pairs[0].b, rounding_).sum() > kLargestBound;
  }

  static std::string why_far(double apart) {
    return fmt::format(
        "the parameters before it are {:.2g} of their norm apart, so rounding may have become as "
        "large as a fault; `watch --perturb 3` measures it",
        apart);
  }

  TensorDifference compare_update(const TensorPair& pair, const UpdateInputs& inputs,
                                  const SideStep& a, const Noise& noise, double all,
                                  const JobSizes& sizes) const {
    const WholeTensor* const before = before_step(a.before, pair.name);
    const Bound bound =
        noise.widened(bound_of_update(pair.a, pair.b, before ? *before : pair.a, inputs),
                      pair.quantity, pair.name);
    // Ranks of B that have a gradient of their own, and step by it, reduce it nowhere.
    const bool is_fault = gradients_of_ranks_.contains(pair.name);
    return compare_pair(pair, is_fault, [&](const WholeTensor& value) {
      return compare_updates(pair.a, value, bound, inputs, all, sizes);
    });
  }

  static TensorDifference compare_state(const TensorPair& pair, const UpdateInputs& inputs,
                                        const Noise& noise, double all, const JobSizes& sizes) {
    const bool counts = pair.name.ends_with(": step");
    const Bound bound =
        noise.widened(bound_of_state(pair.a, pair.b, counts, inputs), pair.quantity, pair.name);
    TensorDifference found =
        compare_values(pair.a, pair.b, bound, inputs.are_equal ? 0 : all, sizes);
    found.quantity = pair.quantity;
    found.name = pair.name;
    found.has_equal_inputs = inputs.are_equal;
    // If the gradients agree, no number of ranks or samples is the cause of a multiple.
    if (found.multiple && !inputs.has_other_gradient) {
      found.multiple->causes.clear();
      found.kind.reset();
    }
    return found;
  }

  void note_gradient(const TensorPair& pair, const TensorDifference& found) {
    GradientsSoFar& so_far = gradients_[pair.name];
    so_far.step = last_;
    so_far.are_equal = so_far.are_equal && found.likeness == Likeness::equal;
    so_far.differ = so_far.differ || found.likeness > Likeness::no_evidence;
    if (found.likeness == Likeness::equal || !so_far.apart) return;
    const auto distance = distance_of(pair.a, pair.b);
    const double norm = std::max(pair.a.norm, pair.b.norm);
    const bool is_known = distance && norm > 0;
    so_far.apart =
        is_known ? std::optional(std::max(*so_far.apart, *distance / norm)) : std::nullopt;
  }

  /// Of an update or a state, after its gradient.
  UpdateInputs inputs_of(const TensorPair& pair, const SideStep& a, const SideStep& b) {
    UpdateInputs inputs;
    inputs.is_by_element = is_by_element_;
    inputs.rounding = gradients_apart_;
    double& largest = largest_[{pair.quantity, pair.name}];
    largest = std::max({largest, pair.a.norm, pair.b.norm});
    inputs.largest = largest;
    const std::string parameter = parameter_of(pair);
    GradientsSoFar& gradients = gradients_[parameter];
    if (gradients.step != last_) {  // it was not observed
      gradients.are_equal = false;
      gradients.apart.reset();
    }
    inputs.has_other_gradient = gradients.differ;
    inputs.are_equal = gradients.are_equal && !has_gap_ && has_same_weights(parameter, a, b);
    if (is_from_start_) inputs.own_rounding = gradients.apart;
    return inputs;
  }

  static bool has_same_weights(const std::string& name, const SideStep& a, const SideStep& b) {
    const WholeTensor* const one = before_step(a.before, name);
    const WholeTensor* const other = before_step(b.before, name);
    return one && other && one->problem.empty() && other->problem.empty() &&
           one->dtype == other->dtype && one->digest && one->digest == other->digest;
  }

  void note_first(const SideStep& a, const SideStep& b) {
    initial_weights_ = compare_initial_weights(a.before, b.before);
    parameters_ = {names_of(a.tensors), names_of(b.tensors)};
  }

  static std::set<std::string> names_of(const WholeTensors& tensors) {
    std::set<std::string> names;
    for (const auto& [key, tensor] : tensors.all()) {
      if (key.kind == Kind::parameter) names.insert(key.name);
    }
    return names;
  }

  const SideFiles& a_;
  const SideFiles& b_;
  const DiffRequest& request_;
  SideSteps steps_a_;
  SideSteps steps_b_;
  int ranks_;
  bool is_by_element_;  ///< so are all optimizers
  bool has_scale_;      ///< that the step of an optimizer takes back, on one side or both
  std::optional<double> gradient_scale_;
  bool is_first_ = true;
  std::int64_t last_ = 0;       ///< step
  bool is_from_start_ = false;  ///< all steps so far were compared, from the first one
  bool has_gap_ = false;        ///< between the steps that were compared
  StepRounding rounding_;       ///< of this step
  double gradients_apart_ = 0;  ///< in this step, as far as that is rounding
  std::set<std::string> gradients_of_ranks_;  ///< that are faults on ranks of B, in this step
  std::map<std::string, GradientsSoFar> gradients_;  ///< by parameter
  /// The largest norm so far, of an update or a state.
  std::map<std::pair<Compared, std::string>, double> largest_;
  std::optional<bool> hold_copies_;         ///< of B's ranks; absent: unknown so far
  std::set<std::string> open_gradients_;    ///< of parameters, in any step so far
  std::set<std::string> without_evidence_;  ///< the same
  Precondition initial_weights_{Prerequisite::initial_weights, Likeness::undecided, "unknown"};
  std::array<std::set<std::string>, 2> parameters_;
};

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
