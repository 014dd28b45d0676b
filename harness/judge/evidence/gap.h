#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// The largest distance between two steps with an observation. It shows that an observation is
/// missing in a job whose observation interval is unknown.
class Gap {
 public:
  /// Steps ascend.
  void note_observed(std::int64_t step) {
    if (last_ > 0) longest_ = std::max(longest_, step - last_);
    last_ = step;
  }

  /// The last observed step; 0: none.
  std::int64_t last() const { return last_; }

  /// Whether an observation was due by `step`: the longest distance so far has passed.
  bool is_overdue(std::int64_t step) const { return step - last_ >= longest_; }

 private:
  std::int64_t last_ = 0;
  std::int64_t longest_ = 1;
};

}  // namespace lockstep
