#include "harness/job/straggler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::size_t kEnoughSteps = 20;
constexpr double kShareOfStep = 0.25;
constexpr double kLeastSeconds = 0.002;
constexpr double kNanoseconds = 1e-9;

/// When each rank called a collective of all, by step, group and number.
using Calls =
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<std::int64_t>>;

/// Those that all ranks called; none, if their clocks are not one.
Calls calls_of_all(const std::map<int, RankFacts>& facts) {
  Calls calls;
  for (const auto& [rank, one] : facts) {
    const bool is_comparable = !one.clock.empty() && one.clock == facts.begin()->second.clock &&
                               facts.size() == static_cast<std::size_t>(one.world_size);
    if (!is_comparable) return {};
    for (const Arrival& arrival : one.arrivals) {
      calls[{arrival.step, arrival.group, arrival.number}].push_back(arrival.ns);
    }
  }
  std::erase_if(calls, [&](const auto& call) { return call.second.size() != facts.size(); });
  return calls;
}

/// Seconds for which all others waited for a rank.
struct Waited {
  std::size_t rank = 0;
  double seconds = 0;
};

Waited waited_in(const std::vector<std::int64_t>& arrivals) {
  const auto last = std::ranges::max_element(arrivals);
  std::int64_t second = *std::ranges::min_element(arrivals);
  for (auto one = arrivals.begin(); one != arrivals.end(); ++one) {
    if (one != last) second = std::max(second, *one);
  }
  return {static_cast<std::size_t>(last - arrivals.begin()),
          static_cast<double>(*last - second) * kNanoseconds};
}

/// Of a step.
struct Step {
  std::int64_t first_ns = 0;   ///< when a rank called the first collective
  std::vector<double> waited;  ///< seconds, by rank
};

std::vector<Step> steps_of(const Calls& calls, std::size_t ranks) {
  std::vector<Step> steps;
  std::int64_t number = 0;
  for (const auto& [call, arrivals] : calls) {
    if (steps.empty() || std::get<0>(call) != number) {
      steps.push_back({std::ranges::min(arrivals), std::vector<double>(ranks)});
      number = std::get<0>(call);
    }
    const Waited waited = waited_in(arrivals);
    steps.back().waited[waited.rank] += waited.seconds;
  }
  return steps;
}

/// The value that a share of them does not reach. Requires: there is one.
double quantile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

double median_duration(const std::vector<Step>& steps) {
  std::vector<double> durations;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    durations.push_back(static_cast<double>(steps[i].first_ns - steps[i - 1].first_ns) *
                        kNanoseconds);
  }
  return quantile(std::move(durations), 0.5);
}

/// For a rank, more than for any other, in each step.
std::vector<double> lateness_of(std::size_t rank, const std::vector<Step>& steps) {
  std::vector<double> lateness;
  for (const Step& step : steps) {
    std::vector<double> others = step.waited;
    others[rank] = 0;
    lateness.push_back(step.waited[rank] - std::ranges::max(others));
  }
  return lateness;
}

}  // namespace

std::optional<Straggler> straggler_in(const std::map<int, RankFacts>& facts) {
  const std::vector<Step> steps = steps_of(calls_of_all(facts), facts.size());
  if (facts.size() < 2 || steps.size() < kEnoughSteps) return std::nullopt;
  std::vector<double> seconds(facts.size());
  for (const Step& step : steps) {
    for (std::size_t rank = 0; rank < seconds.size(); ++rank) seconds[rank] += step.waited[rank];
  }
  const auto rank = static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
  const std::vector<double> lateness = lateness_of(rank, steps);
  // In three of four steps: a machine that has too much to do makes ranks late, too, now and then.
  const double usual = quantile(lateness, 0.25);
  if (usual < kLeastSeconds || usual < kShareOfStep * median_duration(steps)) return std::nullopt;
  const auto late = std::ranges::count_if(lateness, [](double one) { return one > 0; });
  const double duration =
      static_cast<double>(steps.back().first_ns - steps.front().first_ns) * kNanoseconds;
  return Straggler{std::next(facts.begin(), static_cast<std::ptrdiff_t>(rank))->first,
                   static_cast<std::int64_t>(steps.size()), late, seconds[rank], duration};
}

}  // namespace lockstep
