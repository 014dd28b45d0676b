#include "harness/judge/values/gradient_attribution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/bound.h"
#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/shards.h"

namespace lockstep {

namespace {

/// The gradient from one rank's data, for a tensor of the actual one's dtype and shape.
struct OwnGradient {
  std::string name;
  const Observation* observation = nullptr;
  const SnapshotTensor* value = nullptr;
  std::vector<double> numbers = {};  ///< of the value, once a mixture is searched
};

/// From the reference's own gradients of the ranks; one list per rank.
std::vector<std::vector<OwnGradient>> own_gradients(const StepView& reference, int world_size,
                                                    const Observation& actual) {
  std::vector<std::vector<OwnGradient>> all(static_cast<std::size_t>(world_size));
  for (int owner = 0; owner < world_size; ++owner) {
    for (const Observation& own : reference.observations(0)) {
      const bool is_alike =
          own.kind == Kind::gradient && own.replica_group == group_of_one(owner) &&
          own.not_comparable.empty() && own.dtype == actual.dtype &&
          (is_shard(actual) ? lies_in(actual, own) : own.global_shape == actual.global_shape);
      if (!is_alike) continue;
      const SnapshotTensor* const value = reference.kept(0, own);
      const bool is_its_value =
          value && value->shape == own.global_shape && name(value->dtype) == own.dtype;
      all[static_cast<std::size_t>(owner)].push_back(
          {own.name, &own, is_its_value ? value : nullptr});
    }
  }
  return all;
}

/// Whether the value is all zeros or empty, which does not reveal its origin.
bool is_zero(const SnapshotTensor& value) {
  return std::all_of(value.bytes.begin(), value.bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether `actual` is the gradient of that name, or a shard of it. `value`: its snapshot.
bool holds(const std::vector<OwnGradient>& gradients, const Observation& actual,
           const SnapshotTensor* value) {
  return std::any_of(gradients.begin(), gradients.end(), [&](const OwnGradient& own) {
    if (own.name != actual.name || (value && is_zero(*value))) return false;
    if (own.observation->digest == actual.digest) return true;
    const bool is_cut = is_shard(actual) && value && own.value;
    return is_cut && cut(*own.value, actual).bytes == value->bytes;
  });
}

/// Whether another rank is seen to hold the same bits of the same tensor.
bool is_shared(const StepView& step, const Observation& actual, int rank) {
  for (int other = 0; other < step.processes(); ++other) {
    if (other == rank) continue;
    const std::span<const Observation> seen = step.observations(other);
    const bool is_there = std::any_of(seen.begin(), seen.end(), [&](const Observation& there) {
      return there.phase == actual.phase && key_of(there) == key_of(actual) &&
             is_same_value(there, actual);
    });
    if (is_there) return true;
  }
  return false;
}

/// Whether only `owner` has a gradient of that name; then its own gradient is the total.
bool is_alone(const std::vector<std::vector<OwnGradient>>& gradients, const std::string& name,
              std::size_t owner) {
  for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
    if (rank == owner) continue;
    const bool has_one =
        std::any_of(gradients[rank].begin(), gradients[rank].end(), [&](const OwnGradient& own) {
          return own.name == name && !(own.value && is_zero(*own.value));
        });
    if (has_one) return false;
  }
  return true;
}

/// Whether `actual` is the mean of one gradient per rank, up to rounding.
bool is_mean(const std::vector<double>& actual, const std::vector<const OwnGradient*>& chosen,
             double tolerance) {
  std::vector<double> mean(actual.size());
  for (const OwnGradient* own : chosen) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += own->numbers[i] / static_cast<double>(chosen.size());
    }
  }
  double apart = 0, norm = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    apart += (actual[i] - mean[i]) * (actual[i] - mean[i]);
    norm += mean[i] * mean[i];
  }
  return norm > 0 && std::sqrt(apart / norm) <= tolerance;
}

std::string mixture_in_words(const std::vector<const OwnGradient*>& chosen) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
    ranks[chosen[rank]->name].push_back(rank);
  }
  std::vector<std::string> parts;
  for (const auto& [name, holders] : ranks) {
    parts.push_back(fmt::format("{} on rank{} {}", name, holders.size() == 1 ? "" : "s",
                                fmt::join(holders, ",")));
  }
  return fmt::format("it is the mean of {}: different tensors were reduced with each other",
                     fmt::join(parts, " and "));
}

/// Advances a choice of one gradient per rank; false after the last one.
bool advance(std::vector<std::size_t>& choice,
             const std::vector<std::vector<OwnGradient>>& gradients) {
  for (std::size_t rank = 0; rank < choice.size(); ++rank) {
    if (++choice[rank] < gradients[rank].size()) return true;
    choice[rank] = 0;
  }
  return false;
}

/// Describes `value` as a mean of gradients with different names; empty if it is none.
std::string mixture_in_words(const SnapshotTensor& value, double tolerance,
                             std::vector<std::vector<OwnGradient>> gradients) {
  constexpr double kMostChoices = 4096;  // more choices make any match a guess
  double choices = 1;
  for (const auto& own : gradients) choices *= static_cast<double>(own.size());
  if (choices < 1 || choices > kMostChoices) return "";
  for (auto& own : gradients) {
    for (OwnGradient& gradient : own) {
      if (gradient.value) gradient.numbers = components_of(*gradient.value);
    }
  }
  const std::vector<double> actual = components_of(value);
  std::vector<std::size_t> choice(gradients.size());
  do {
    std::vector<const OwnGradient*> chosen;
    for (std::size_t rank = 0; rank < choice.size(); ++rank) {
      chosen.push_back(&gradients[rank][choice[rank]]);
    }
    const bool is_mixed = std::any_of(chosen.begin(), chosen.end(), [&](const OwnGradient* own) {
      return own->name != chosen.front()->name;
    });
    const bool is_kept = std::all_of(chosen.begin(), chosen.end(),
                                     [](const OwnGradient* own) { return own->value; });
    if (is_mixed && is_kept && is_mean(actual, chosen, tolerance)) return mixture_in_words(chosen);
  } while (advance(choice, gradients));
  return "";
}

}  // namespace

DiagnosedAttribution attribution_of_gradient(const CellStep& step, int world_size,
                                             const Observation& actual, int rank) {
  if (actual.kind != Kind::gradient || !step.reference) return {};
  auto gradients = own_gradients(*step.reference, world_size, actual);
  const SnapshotTensor* value = step.actual.kept(rank, actual);
  const bool is_known_to_agree = is_shared(step.actual, actual, rank);
  if (rank < world_size && !is_known_to_agree &&
      holds(gradients[static_cast<std::size_t>(rank)], actual, value)) {
    return {GradientAttribution::own, "it is the rank's own gradient: never synchronised"};
  }
  for (std::size_t owner = 0; owner < gradients.size(); ++owner) {
    const bool is_the_sum = is_known_to_agree && is_alone(gradients, actual.name, owner);
    if (!is_the_sum && holds(gradients[owner], actual, value)) {
      return {GradientAttribution::other_rank, fmt::format("it is rank {}'s own gradient", owner)};
    }
  }
  if (!value || world_size < 2 || is_shard(actual)) return {};
  const double unit = unit_roundoff(component_type(value->dtype));
  std::string mixture =
      mixture_in_words(*value, rounding_tolerance(unit, world_size), std::move(gradients));
  if (mixture.empty()) return {};
  return {GradientAttribution::mixture, std::move(mixture)};
}

}  // namespace lockstep
