#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

/// A step as thinning sees it.
struct ThinnedStep {
  std::int64_t place = 0;  ///< among all steps, from 0
  std::int64_t state = 0;  ///< of the verdict: steps in a row with another one are kept
  /// Values of which each bucket keeps the extremes; not finite: no value.
  double low = 0;
  double high = 0;
  double other = 0;        ///< of which only the largest is kept
  bool is_change = false;  ///< its state is not that of a neighbour
};

/// The indices of the steps to keep, ascending, if buckets are `width` steps wide: the first and
/// the last step, every change of state on both sides, and of each bucket the steps with the lowest
/// `low`, the highest `high` and the highest `other`. With `merges`, each bucket keeps only its
/// first and its last change.
std::vector<std::size_t> kept_steps(std::span<const ThinnedStep> steps, std::int64_t width,
                                    bool merges = false);

/// Steps in ascending order, thinned while they are added, so that memory has a limit. Buckets
/// double, each from two whole ones, so an extreme of a bucket is that of all its steps.
template <class Row>
class ThinnedSteps {
 public:
  /// Keeps at most about `most` (>= 8) steps.
  explicit ThinnedSteps(std::size_t most) : most_(most) {}

  void add(std::int64_t state, double low, double high, double other, Row row) {
    ThinnedStep step{seen_++, state, low, high, other, false};
    if (!steps_.empty() && steps_.back().state != state) {
      steps_.back().is_change = step.is_change = true;
      ++changes_;
    }
    steps_.push_back(step);
    rows_.push_back(std::move(row));
    if (steps_.size() >= 2 * most_) shrink();
  }

  std::int64_t seen() const { return seen_; }

  /// Changes of state that are no longer all shown.
  std::int64_t merged_changes() const { return merges_ ? changes_ : 0; }

  /// The rows that are kept. Call once, at the end.
  std::vector<Row> take() {
    if (steps_.size() > most_) shrink();
    return std::move(rows_);
  }

 private:
  /// Thins the newest steps like the older ones, and all more than before only if that is not
  /// enough.
  void shrink() {
    for (thin(); steps_.size() > most_; thin()) width_ *= 2;
  }

  void thin() {
    const auto changes = static_cast<std::size_t>(std::count_if(
        steps_.begin(), steps_.end(), [](const ThinnedStep& step) { return step.is_change; }));
    merges_ = merges_ || changes > most_ / 2;
    std::vector<ThinnedStep> steps;
    std::vector<Row> rows;
    for (const std::size_t i : kept_steps(steps_, width_, merges_)) {
      steps.push_back(steps_[i]);
      rows.push_back(std::move(rows_[i]));
    }
    steps_ = std::move(steps);
    rows_ = std::move(rows);
  }

  std::size_t most_;
  std::int64_t width_ = 1;
  std::int64_t seen_ = 0;
  std::int64_t changes_ = 0;
  bool merges_ = false;
  std::vector<ThinnedStep> steps_;
  std::vector<Row> rows_;  ///< one per step
};

}  // namespace lockstep
