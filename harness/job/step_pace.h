#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace lockstep {

/// How fast the ranks of a running job go on.
class StepPace {
 public:
  /// Steps after which a word to the ranks surely has reached all of them before they begin the
  /// step it is about. A rank that is told too late would observe other steps than the others.
  /// `step`: the last one that a rank began.
  std::int64_t steps_ahead(std::int64_t step) {
    constexpr std::chrono::seconds kSecond(1);
    const auto now = Clock::now();
    if (last_step_ == 0) {  // no rank had begun
      last_step_ = step;
      since_ = now;
    } else if (now - since_ >= kSecond) {
      per_second_ = step - last_step_;
      last_step_ = step;
      since_ = now;
    }
    return 2 + std::max(per_second_.value_or(0), step - last_step_) / 2;
  }

  /// Whether the ranks were seen to train for a second. Before, `steps_ahead` may be too few.
  bool is_known() const { return per_second_.has_value(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t last_step_ = 0;              ///< a second ago
  std::optional<std::int64_t> per_second_;  ///< steps
  Clock::time_point since_ = Clock::now();
};

}  // namespace lockstep
