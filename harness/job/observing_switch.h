#pragma once

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

  /// `step`: the last one that a rank began. `ahead`: the ranks switch so many steps later. Returns
  /// a sentence if it switches; else it is empty.
  std::string look(std::int64_t step, std::int64_t ahead);

 private:
  bool take(const char* name) const;

  std::filesystem::path folder_;
  bool is_on_;
  WatchControl& control_;
  std::int64_t switched_at_ = 0;  ///< step
};

}  // namespace lockstep
