#include "harness/judge/values/reductions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "harness/compare/apart.h"
#include "harness/compare/bound.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"

namespace lockstep {

namespace {

/// Ranks whose contributions are as near to their mean, relative to their size, may be replicas
/// that compute the same: one of them stands for all.
constexpr double kReplicas = 0.02;

/// A tensor may fit a wrong sum by chance with at most this probability.
constexpr double kChance = 1e-9;

/// A bound that allows so much of the mean decides nothing.
constexpr double kLargestShare = 0.05;

/// Roundings of a gradient beside those of the sum, such as by an unscaling.
constexpr double kOtherRoundings = 4;

/// Root of the mean square of roundings, relative to the unit roundoff, at most; and twice that.
constexpr double kRounding = 2 / 1.7320508;

/// Of an estimate by sketches.
constexpr double kAllowance = 1 + 2 * kSketchLargeError;

Sketch times(Sketch sketch, double factor) {
  for (double& lane : sketch.lanes) lane *= factor;
  return sketch;
}

/// A gradient and what its ranks contributed to it.
struct Gradient {
  std::string name;
  DType dtype = DType::float32;
  std::int64_t components = 0;
  std::vector<std::vector<int>> groups;  ///< of ranks with the same bits
  std::map<int, Sketch> values;          ///< before the optimizer's step
  std::map<int, Sketch> contributions;
  /// The latest backward pass before the last one, from 1, after which all ranks had the same bits;
  /// 0: there is none.
  std::int64_t early_pass = 0;
  std::map<int, Sketch> ended;  ///< when the last backward pass had ended
  std::map<int, Digest> ended_bits;
  double size = 0;  ///< mean of the norms of the contributions

  Sketch mean;  ///< of the contributions

  double ranks() const { return static_cast<double>(contributions.size()); }

  Sketch mean_of(const std::vector<int>& some) const {
    Sketch sum;
    for (const int rank : some) sum += contributions.at(rank);
    return times(sum, 1 / static_cast<double>(some.size()));
  }

  /// Of all but one: of many ranks each is left out in turn.
  Sketch mean_without(int rank) const {
    Sketch sum = times(mean, ranks());
    sum -= contributions.at(rank);
    return times(sum, 1 / (ranks() - 1));
  }

  std::vector<int> all_ranks() const {
    std::vector<int> all;
    for (const auto& [rank, sketch] : contributions) all.push_back(rank);
    return all;
  }

  std::vector<int> ranks_without(int rank) const {
    std::vector<int> others;
    for (const auto& [other, sketch] : contributions) {
      if (other != rank) others.push_back(other);
    }
    return others;
  }
};

using OfRanks = std::map<int, const Observation*>;

/// Rows of a kind in a step: the last of each rank, by name.
std::map<std::string, OfRanks> last_rows_of(const StepView& step, Kind kind) {
  std::map<std::string, OfRanks> rows;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind != kind || row.phase != Phase::post_backward) continue;
      const Observation*& last = rows[row.name][rank];
      if (!last || last->micro_batch <= row.micro_batch) last = &row;
    }
  }
  return rows;
}

bool is_known(const Observation& row) {
  return row.not_comparable.empty() && row.statistics.non_finite == 0;
}

/// Adds the sketches of rows of a tensor that is like `model`. Returns whether all are known.
bool take_sketches(const StepView& step, const OfRanks& rows, const Observation& model,
                   std::map<int, Sketch>& sketches) {
  for (const auto& [rank, row] : rows) {
    const Sketch* const sketch = step.sketch(rank, *row);
    const bool is_alike = row->dtype == model.dtype && row->local_shape == model.local_shape;
    if (!sketch || !is_alike || !is_known(*row)) return false;
    sketches.emplace(rank, *sketch);
  }
  return true;
}

OfRanks of_holders(const OfRanks& rows, const HeldTensor& held) {
  OfRanks own;
  for (const auto& [rank, row] : rows) {
    if (held.holders.contains(rank)) own.emplace(rank, row);
  }
  return own;
}

/// The ranks that contributed to any gradient of the step.
std::set<int> contributors_to(const std::map<std::string, OfRanks>& contributions) {
  std::set<int> ranks;
  for (const auto& [name, rows] : contributions) {
    for (const auto& [rank, row] : rows) ranks.insert(rank);
  }
  return ranks;
}

/// The bits at the end of backward passes of a tensor, by pass and rank.
using EndsOfPasses = std::map<std::int64_t, std::map<int, Digest>>;

/// By name of the tensor.
std::map<std::string, EndsOfPasses> ends_in(const StepView& step) {
  std::map<std::string, EndsOfPasses> ends;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind == Kind::reduction) ends[row.name][row.micro_batch][rank] = row.digest;
    }
  }
  return ends;
}

/// What was observed of the backward passes of a step.
struct Passes {
  std::map<std::string, OfRanks> contributions;
  std::map<std::string, OfRanks> ended;
  std::map<std::string, EndsOfPasses> ends;
  std::set<int> contributors;

  explicit Passes(const StepView& step)
      : contributions(last_rows_of(step, Kind::contribution)),
        ended(last_rows_of(step, Kind::reduction)),
        ends(ends_in(step)),
        contributors(contributors_to(contributions)) {}
};

/// Adds ends of backward passes, if they are those of the last contributions, or there was none on
/// a rank.
void take_ended(const StepView& step, const OfRanks& ended, const OfRanks& contributions,
                const Observation& model, Gradient& gradient) {
  for (const auto& [rank, row] : ended) {
    const auto own = contributions.find(rank);
    if (own != contributions.end() && own->second->micro_batch != row->micro_batch) return;
  }
  std::map<int, Sketch> sketches;
  if (!take_sketches(step, ended, model, sketches)) return;
  gradient.ended = std::move(sketches);
  for (const auto& [rank, row] : ended) gradient.ended_bits.emplace(rank, row->digest);
}

/// As `Gradient::early_pass`. `last`: the number of the last pass.
std::int64_t early_pass_of(const EndsOfPasses& passes, const HeldTensor& held, std::int64_t last) {
  std::int64_t early = 0;
  for (const auto& [pass, ends] : passes) {
    const std::map<int, Digest>& bits = ends;
    const auto first = bits.find(held.holders.begin()->first);
    const bool is_common = std::ranges::all_of(held.holders, [&](const auto& holder) {
      const auto end = bits.find(holder.first);
      return end != bits.end() && end->second == first->second;
    });
    if (pass < last && is_common) early = pass + 1;
  }
  return early;
}

/// A rank that contributed to other gradients alone added nothing to this one. Empty: something is
/// unknown.
std::optional<Gradient> gradient_of(const StepView& step, const HeldTensor& held,
                                    const Passes& passes) {
  const Observation& model = *held.holders.begin()->second;
  const auto known = passes.contributions.find(model.name);
  if (known == passes.contributions.end() || held.holders.size() < 2) return std::nullopt;
  const OfRanks own = of_holders(known->second, held);
  const auto dtype = parse<DType>(model.dtype);
  Gradient gradient;
  if (own.empty() || !dtype || unit_roundoff(component_type(*dtype)) == 0) return std::nullopt;
  if (!take_sketches(step, held.holders, model, gradient.values)) return std::nullopt;
  if (!take_sketches(step, own, model, gradient.contributions)) return std::nullopt;
  for (const auto& [rank, value] : held.holders) {
    if (!passes.contributors.contains(rank)) return std::nullopt;
    gradient.contributions.try_emplace(rank);
  }
  gradient.name = model.name;
  gradient.dtype = *dtype;
  gradient.components =
      element_count(model.local_shape) * static_cast<std::int64_t>(components(*dtype));
  gradient.groups = groups_of(held);
  gradient.mean = gradient.mean_of(gradient.all_ranks());
  for (const auto& [rank, row] : own) gradient.size += row->statistics.norm / gradient.ranks();
  if (const auto ended = passes.ended.find(model.name); ended != passes.ended.end()) {
    take_ended(step, of_holders(ended->second, held), own, model, gradient);
    gradient.early_pass =
        early_pass_of(passes.ends.at(model.name), held, own.begin()->second->micro_batch);
  }
  return gradient;
}

/// Compares a gradient with sums of its contributions, up to a rounding.
class Fit {
 public:
  Fit(const Gradient& gradient, double roundoff)
      : size_(gradient.size),
        components_(static_cast<double>(gradient.components)),
        bound_(kAllowance * kRounding * roundoff * std::sqrt(gradient.ranks() + kOtherRoundings) *
               gradient.size) {}

  /// How many times it is a sum; empty: it is none, or turned round.
  std::optional<double> factor(const Sketch& value, const Sketch& sum) const {
    const Apart apart = apart_of(sum, value);
    const double factor = apart.ratio.value_or(0);
    if (factor <= 0 || apart.rest > bound_ * factor) return std::nullopt;
    return factor;
  }

  /// Whether two sums are further apart than the rounding of both.
  bool tells_apart(const Sketch& one, const Sketch& other) const {
    return distance(one, other) > kFault * bound_;
  }

  /// Of a sum in the direction of another one.
  static double distance(const Sketch& one, const Sketch& other) {
    const Apart apart = apart_of(one, other);
    return apart.ratio.value_or(0) > 0 ? apart.rest / *apart.ratio : apart.rest;
  }

  double bound() const { return bound_; }

  /// Whether a tensor of so few components may be a multiple of another one by chance.
  bool may_be_chance() const { return std::pow(bound_ / size_, components_ - 1) > kChance; }

 private:
  double size_;
  double components_;
  double bound_;
};

/// The ends of the backward passes, if all ranks have the same bits there: wrappers have reduced
/// them.
const Sketch* common_end(const Gradient& gradient) {
  if (gradient.ended.size() != gradient.contributions.size()) return nullptr;
  const Digest& first = gradient.ended_bits.begin()->second;
  const bool is_common = std::ranges::all_of(gradient.ended_bits,
                                             [&](const auto& end) { return end.second == first; });
  return is_common ? &gradient.ended.begin()->second : nullptr;
}

/// Among how many ranks one that is left out would be seen: its share of the mean falls with their
/// number, and the rounding of the sum rises with its root.
std::size_t reach_of(const Gradient& gradient, const Fit& fit) {
  double least = gradient.size;
  for (const auto& [rank, own] : gradient.contributions) {
    least = std::min(least, Fit::distance(gradient.mean_without(rank), gradient.mean));
  }
  if (least <= kFault * fit.bound()) return 0;
  const double factor = std::pow(least / (kFault * fit.bound()), 2.0 / 3.0);
  return static_cast<std::size_t>(std::floor(gradient.ranks() * factor));
}

/// Whether a factor is `wanted`, up to a rounding that is far from another number of ranks.
bool is_about(double factor, double wanted) { return std::abs(factor - wanted) < 0.01 * wanted; }

/// Of a gradient with the same bits on all ranks. `value`: of these, or when the pass had ended.
std::optional<Reduction> sum_of_some(const Gradient& gradient, const Sketch& value,
                                     const Fit& fit) {
  if (fit.may_be_chance()) return std::nullopt;
  for (const auto& [rank, own] : gradient.contributions) {
    if (Fit::distance(own, gradient.mean) <= kReplicas * gradient.size) continue;
    const Sketch others = gradient.mean_without(rank);
    if (!fit.tells_apart(own, gradient.mean) || !fit.tells_apart(others, gradient.mean)) continue;
    const std::vector<int> rest = gradient.ranks_without(rank);
    if (fit.factor(value, own)) return Reduction{Reduced::over_some, {{rank}, rest}};
    if (fit.factor(value, others)) return Reduction{Reduced::over_some, {rest, {rank}}};
  }
  return std::nullopt;
}

std::optional<Reduction> agreeing(const Gradient& gradient, const Fit& fit) {
  const Sketch& value = gradient.values.begin()->second;
  const Sketch* const end = common_end(gradient);
  if (const auto factor = end ? fit.factor(*end, gradient.mean) : std::nullopt) {
    if (is_about(*factor, 1 / gradient.ranks())) {
      return Reduction{Reduced::divided, {gradient.all_ranks()}};
    }
    return Reduction{Reduced::over_all, {}, 0, reach_of(gradient, fit)};
  }
  if (fit.factor(value, gradient.mean))
    return Reduction{Reduced::over_all, {}, 0, reach_of(gradient, fit)};
  return sum_of_some(gradient, end ? *end : value, fit);
}

/// The ranks on which a gradient is no multiple of the end of the pass. If it is another multiple
/// on each, those that are not like most; else those where it is not the end itself; if all were
/// changed, all.
std::vector<int> changed_ranks(const Gradient& gradient, const Sketch& end, const Fit& fit) {
  std::vector<int> changed, others;
  const std::vector<int>*most = nullptr, *same = nullptr;
  double least = 0.01;  // from 1, of the factors
  for (const std::vector<int>& ranks : gradient.groups) {
    const auto factor = fit.factor(gradient.values.at(ranks.front()), end);
    if (!factor) changed.insert(changed.end(), ranks.begin(), ranks.end());
    if (2 * ranks.size() > gradient.contributions.size()) most = &ranks;
    if (!factor || std::abs(*factor - 1) >= least) continue;
    least = std::abs(*factor - 1);
    same = &ranks;
  }
  const std::vector<int>* const kept = most ? most : same;
  if (!changed.empty()) {
    std::ranges::sort(changed);
    return changed;
  }
  for (const auto& [rank, own] : gradient.contributions) {
    if (!kept || !std::ranges::binary_search(*kept, rank)) others.push_back(rank);
  }
  return others;
}

std::optional<Reduction> differing(const Gradient& gradient, const Fit& fit) {
  if (fit.may_be_chance()) return std::nullopt;
  if (const Sketch* const end = common_end(gradient); end && fit.factor(*end, gradient.mean)) {
    return Reduction{Reduced::changed_after, {changed_ranks(gradient, *end, fit)}};
  }
  const bool are_means = std::ranges::all_of(gradient.groups, [&](const std::vector<int>& ranks) {
    const Sketch own = gradient.mean_of(ranks);
    return fit.factor(gradient.values.at(ranks.front()), own) &&
           fit.tells_apart(own, gradient.mean);
  });
  if (!are_means) return std::nullopt;
  const bool is_early = gradient.early_pass > 0 && gradient.groups.size() == gradient.values.size();
  return is_early ? Reduction{Reduced::early_pass, {gradient.all_ranks()}, gradient.early_pass}
                  : Reduction{Reduced::within_groups, gradient.groups};
}

Reduction reduction_of(const Gradient& gradient) {
  for (const DType dtype : {gradient.dtype, DType::bfloat16}) {
    const Fit fit(gradient, unit_roundoff(component_type(dtype)));
    if (fit.bound() > kLargestShare * norm_of(gradient.mean)) break;
    const auto found =
        gradient.groups.size() == 1 ? agreeing(gradient, fit) : differing(gradient, fit);
    if (found) return *found;
  }
  return {};
}

/// Whether a bound tells anything about a gradient at all.
bool is_judged(const Gradient& gradient) {
  const Fit fit(gradient, unit_roundoff(component_type(gradient.dtype)));
  return gradient.size > 0 && fit.bound() <= kLargestShare * norm_of(gradient.mean) &&
         gradient.components > 1;
}

}  // namespace

std::map<std::string, Reduction> reductions_in(const StepView& step,
                                               const std::set<std::string>& unshared) {
  std::map<std::string, Reduction> found;
  const Passes passes(step);
  if (passes.contributions.empty()) return found;
  const Claim agree = agree_across_ranks(Kind::gradient, Phase::pre_step);
  for (const HeldTensor& held : held_tensors(step, agree, unshared)) {
    const auto gradient = gradient_of(step, held, passes);
    if (gradient && is_judged(*gradient)) found.emplace(gradient->name, reduction_of(*gradient));
  }
  return found;
}

}  // namespace lockstep
