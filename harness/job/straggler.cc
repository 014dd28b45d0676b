#include "harness/job/straggler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t kEnoughSteps = 20;
constexpr double kShareOfSteps = 0.75;
constexpr double kShareOfTime = 0.2;
constexpr double kShareOfWaiting = 0.8;
constexpr double kLeastPerStep_s = 0.002;
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

std::size_t largest(const std::vector<double>& numbers) {
  return static_cast<std::size_t>(std::ranges::max_element(numbers) - numbers.begin());
}

double duration_of(const Calls& calls) {
  std::int64_t first = calls.begin()->second.front(), last = first;
  for (const auto& [call, arrivals] : calls) {
    const auto [begin, end] = std::ranges::minmax(arrivals);
    first = std::min(first, begin);
    last = std::max(last, end);
  }
  return static_cast<double>(last - first) * kNanoseconds;
}

}  // namespace

std::optional<Straggler> straggler_in(const std::map<int, RankFacts>& facts) {
  const Calls calls = calls_of_all(facts);
  if (facts.size() < 2 || calls.empty()) return std::nullopt;
  std::map<std::int64_t, std::vector<double>> steps;  // seconds, by rank
  std::vector<double> seconds(facts.size());
  for (const auto& [call, arrivals] : calls) {
    const Waited waited = waited_in(arrivals);
    auto& of_step = steps.try_emplace(std::get<0>(call), facts.size()).first->second;
    of_step[waited.rank] += waited.seconds;
    seconds[waited.rank] += waited.seconds;
  }
  const std::size_t rank = largest(seconds);
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto late = std::ranges::count_if(steps, [rank](const auto& step) {
    return step.second[rank] > 0 && largest(step.second) == rank;
  });
  const auto count = static_cast<std::int64_t>(steps.size());
  const Straggler straggler{std::next(facts.begin(), static_cast<std::ptrdiff_t>(rank))->first,
                            count, late, seconds[rank], duration_of(calls)};
  const double n = static_cast<double>(count);
  const bool is_certain = count >= kEnoughSteps && static_cast<double>(late) >= kShareOfSteps * n &&
                          straggler.waited_s >= kShareOfTime * straggler.duration_s &&
                          straggler.waited_s >= kShareOfWaiting * all &&
                          straggler.waited_s >= kLeastPerStep_s * n;
  return is_certain ? std::optional(straggler) : std::nullopt;
}

}  // namespace lockstep
