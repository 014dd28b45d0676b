#include "harness/judge/values/reductions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "harness/compare/apart.h"
#include "harness/compare/bound.h"
#include "harness/judge/values/contributed_gradients.h"
#include "harness/record/dtype.h"
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

/// Compares a gradient with sums of its contributions, up to a rounding.
class Fit {
 public:
  Fit(const ContributedGradient& gradient, double roundoff)
      : size_(gradient.size),
        components_(static_cast<double>(gradient.components)),
        bound_(kAllowance * kRounding * roundoff *
               std::sqrt(gradient.ranks() + gradient.summands - 1 + kOtherRoundings) *
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
const Sketch* common_end(const ContributedGradient& gradient) {
  if (gradient.ended.size() != gradient.contributions.size()) return nullptr;
  const Digest& first = gradient.ended_bits.begin()->second;
  const bool is_common = std::ranges::all_of(gradient.ended_bits,
                                             [&](const auto& end) { return end.second == first; });
  return is_common ? &gradient.ended.begin()->second : nullptr;
}

/// Among how many ranks one that is left out would be seen: its share of the mean falls with their
/// number, and the rounding of the sum rises with its root.
std::size_t reach_of(const ContributedGradient& gradient, const Fit& fit) {
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
std::optional<Reduction> sum_of_some(const ContributedGradient& gradient, const Sketch& value,
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

/// Of a gradient with the same bits on all ranks, whose passes add up.
std::optional<Reduction> sum_of_early(const ContributedGradient& gradient, const Sketch& value,
                                      const Fit& fit) {
  if (fit.may_be_chance()) return std::nullopt;
  for (const Sketch& mean : gradient.early_means) {
    if (fit.tells_apart(mean, gradient.mean) && fit.factor(value, mean)) {
      return Reduction{Reduced::early_sum, {gradient.all_ranks()}};
    }
  }
  return std::nullopt;
}

std::optional<Reduction> agreeing(const ContributedGradient& gradient, const Fit& fit) {
  const Sketch& value = gradient.values.begin()->second;
  const Sketch* const end = common_end(gradient);
  if (const auto factor = end ? fit.factor(*end, gradient.mean) : std::nullopt) {
    if (is_about(*factor, 1 / gradient.ranks())) {
      return Reduction{Reduced::divided, {gradient.all_ranks()}};
    }
    return Reduction{Reduced::over_all, {}, 0, reach_of(gradient, fit), *factor};
  }
  if (const auto factor = fit.factor(value, gradient.mean)) {
    return Reduction{Reduced::over_all, {}, 0, reach_of(gradient, fit), *factor};
  }
  if (auto early = sum_of_early(gradient, end ? *end : value, fit)) return early;
  return sum_of_some(gradient, end ? *end : value, fit);
}

/// The ranks on which a gradient is no multiple of the end of the pass. If it is another multiple
/// on each, those that are not like most; else those where it is not the end itself; if all were
/// changed, all.
std::vector<int> changed_ranks(const ContributedGradient& gradient, const Sketch& end,
                               const Fit& fit) {
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

/// That of ranks with the same bits: when the last backward pass had ended, if they had the same
/// there, too.
const Sketch& reduced_in(const ContributedGradient& gradient, const std::vector<int>& ranks) {
  const auto first = gradient.ended_bits.find(ranks.front());
  const bool was_reduced =
      ranks.size() > 1 && first != gradient.ended_bits.end() &&
      std::ranges::all_of(ranks, [&](int rank) {
        const auto own = gradient.ended_bits.find(rank);
        return own != gradient.ended_bits.end() && own->second == first->second;
      });
  return was_reduced ? gradient.ended.at(ranks.front()) : gradient.values.at(ranks.front());
}

std::optional<Reduction> differing(const ContributedGradient& gradient, const Fit& fit) {
  if (fit.may_be_chance()) return std::nullopt;
  if (const Sketch* const end = common_end(gradient); end && fit.factor(*end, gradient.mean)) {
    return Reduction{Reduced::changed_after, {changed_ranks(gradient, *end, fit)}};
  }
  const bool are_means = std::ranges::all_of(gradient.groups, [&](const std::vector<int>& ranks) {
    const Sketch own = gradient.mean_of(ranks);
    return fit.factor(reduced_in(gradient, ranks), own) && fit.tells_apart(own, gradient.mean);
  });
  if (!are_means) return std::nullopt;
  const bool is_early = gradient.early_pass > 0 && gradient.groups.size() == gradient.values.size();
  return is_early ? Reduction{Reduced::early_pass, {gradient.all_ranks()}, gradient.early_pass}
                  : Reduction{Reduced::within_groups, gradient.groups};
}

Reduction reduction_of(const ContributedGradient& gradient) {
  for (const DType dtype : {gradient.dtype, DType::bfloat16}) {
    const Fit fit(gradient, unit_roundoff(component_type(dtype)));
    if (fit.bound() > kLargestShare * norm_of(gradient.mean)) break;
    const auto found =
        gradient.groups.size() == 1 ? agreeing(gradient, fit) : differing(gradient, fit);
    if (found) return *found;
  }
  return {};
}

bool are_alike(const ContributedGradient& gradient) {
  const Sketch& first = gradient.contributions.begin()->second;
  return std::ranges::all_of(gradient.contributions,
                             [&](const auto& one) { return one.second == first; });
}

/// Whether a bound tells anything about a gradient at all.
bool is_judged(const ContributedGradient& gradient) {
  const Fit fit(gradient, unit_roundoff(component_type(gradient.dtype)));
  return gradient.size > 0 && fit.bound() <= kLargestShare * norm_of(gradient.mean) &&
         gradient.components > 1;
}

}  // namespace

std::map<std::string, Reduction> reductions_in(const StepView& step,
                                               const std::set<std::string>& unshared) {
  std::map<std::string, Reduction> found;
  const RanksByGradient of_none =
      see_contributed_gradients(step, unshared, [&](const ContributedGradient& gradient) {
        if (!is_judged(gradient)) return;
        Reduction reduction = reduction_of(gradient);
        reduction.are_alike = are_alike(gradient);
        found.emplace(gradient.name, std::move(reduction));
      });
  for (const auto& [name, ranks] : of_none) {
    Reduction nowhere{Reduced::nowhere};
    for (const int rank : ranks) nowhere.ranks.push_back({rank});
    found.emplace(name, std::move(nowhere));
  }
  return found;
}

}  // namespace lockstep
