#include "harness/job/wrong_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

namespace {

constexpr double kMostApart = 1e-3;  ///< of the value: rounding of sums in float32 is far below

/// One metric, as all ranks have it.
using OnRanks = std::vector<const ReducedMetric*>;

/// By name and by how often it was reduced before.
std::map<std::pair<std::string, std::int64_t>, OnRanks> metrics_of(
    const std::map<int, RankFacts>& facts) {
  std::map<std::pair<std::string, std::int64_t>, OnRanks> metrics;
  for (const auto& [rank, one] : facts) {
    std::map<std::string, std::int64_t> count;
    for (const ReducedMetric& metric : one.metrics) {
      metrics[{metric.name, count[metric.name]++}].push_back(&metric);
    }
  }
  return metrics;
}

/// Empty: no such operation, or the mean of nothing.
std::optional<double> expected_of(const OnRanks& ranks) {
  const std::string& operation = ranks.front()->operation;
  double value = ranks.front()->value;
  double weight = ranks.front()->weight;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const double other = ranks[i]->value;
    if (operation == "max" || operation == "min") {
      value = operation == "max" ? std::max(value, other) : std::min(value, other);
    } else {
      value += other;
    }
    weight += ranks[i]->weight;
  }
  if (operation != "mean") return value;
  return weight > 0 ? std::optional(value / weight) : std::nullopt;
}

bool are_one(const OnRanks& ranks) {
  return std::ranges::all_of(
      ranks, [&](const ReducedMetric* one) { return one->operation == ranks.front()->operation; });
}

}  // namespace

std::vector<WrongMetric> wrong_metrics_in(const std::map<int, RankFacts>& facts) {
  std::map<std::string, WrongMetric> wrong;
  for (const auto& [metric, ranks] : metrics_of(facts)) {
    const bool has_all = ranks.size() == facts.size() &&
                         facts.size() == static_cast<std::size_t>(facts.begin()->second.world_size);
    if (!has_all || !are_one(ranks)) continue;
    const ReducedMetric& first = *ranks.front();
    const std::optional<double> expected = expected_of(ranks);
    if (!expected || std::abs(first.reported - *expected) <= kMostApart * std::abs(*expected)) {
      continue;
    }
    wrong.try_emplace(first.name, WrongMetric{first.name, first.operation, first.step,
                                              first.reported, *expected});
  }
  std::vector<WrongMetric> all;
  for (auto& [name, one] : wrong) all.push_back(std::move(one));
  return all;
}

}  // namespace lockstep
