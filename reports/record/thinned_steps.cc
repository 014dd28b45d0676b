#include "reports/record/thinned_steps.h"

#include <cmath>
#include <functional>
#include <set>

namespace lockstep {

namespace {

/// The best of `values` by `is_better`, if one is finite; the earliest of equal ones.
template <class Better>
void keep_best(std::span<const ThinnedStep> steps, std::size_t begin, std::size_t end,
               double ThinnedStep::*value, Better is_better, std::set<std::size_t>& kept) {
  std::size_t best = end;
  for (std::size_t i = begin; i < end; ++i) {
    if (!std::isfinite(steps[i].*value)) continue;
    if (best == end || is_better(steps[i].*value, steps[best].*value)) best = i;
  }
  if (best != end) kept.insert(best);
}

void keep_changes(std::span<const ThinnedStep> steps, std::size_t begin, std::size_t end,
                  bool merges, std::set<std::size_t>& kept) {
  std::size_t last = end;
  for (std::size_t i = begin; i < end; ++i) {
    if (!steps[i].is_change) continue;
    if (!merges || last == end) kept.insert(i);
    last = i;
  }
  if (last != end) kept.insert(last);
}

}  // namespace

std::vector<std::size_t> kept_steps(std::span<const ThinnedStep> steps, std::int64_t width,
                                    bool merges) {
  std::set<std::size_t> kept;
  if (steps.empty()) return {};
  kept.insert(0);
  kept.insert(steps.size() - 1);
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    const std::int64_t bucket = steps[begin].place / width;
    while (end < steps.size() && steps[end].place / width == bucket) ++end;
    keep_best(steps, begin, end, &ThinnedStep::low, std::less<>(), kept);
    keep_best(steps, begin, end, &ThinnedStep::high, std::greater<>(), kept);
    keep_best(steps, begin, end, &ThinnedStep::other, std::greater<>(), kept);
    keep_changes(steps, begin, end, merges, kept);
  }
  return {kept.begin(), kept.end()};
}

}  // namespace lockstep
