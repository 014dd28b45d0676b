#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "harness/record/watch_control.h"

namespace lockstep {

/// Switches the observation of a running job: the user puts a file `off` or `on` into the run's
/// folder, and it is removed once the ranks were told. They switch in one step, a little later, so
/// that all observe the same steps.
class ObservingSwitch {
 public:
  ObservingSwitch(std::filesystem::path folder, bool is_on, WatchControl& control);

  /// `step`: the last one that a rank began. Returns a sentence if it switches; else it is empty.
  std::string look(std::int64_t step);

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t steps_ahead(std::int64_t step);
  bool take(const char* name) const;

  std::filesystem::path folder_;
  bool is_on_;
  WatchControl& control_;
  std::int64_t switched_at_ = 0;  ///< step
  std::int64_t last_step_ = 0;    ///< a second ago
  std::int64_t per_second_ = 0;   ///< steps
  Clock::time_point since_ = Clock::now();
};

}  // namespace lockstep
