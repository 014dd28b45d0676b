#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// How many steps pass between two in which something is observed. By it a job of which nobody
/// knows when it observes what shows that something is missed.
class Gap {
 public:
  /// Steps ascend.
  void note_observed(std::int64_t step) {
    if (last_ > 0) longest_ = std::max(longest_, step - last_);
    last_ = step;
  }

  /// In which it was observed; 0: in none.
  std::int64_t last() const { return last_; }

  /// Whether it was to be observed again by `step`: after as many steps as ever before.
  bool is_overdue(std::int64_t step) const { return step - last_ >= longest_; }

 private:
  std::int64_t last_ = 0;
  std::int64_t longest_ = 1;
};

}  // namespace lockstep
