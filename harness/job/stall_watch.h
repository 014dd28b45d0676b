#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "harness/job/stall.h"
#include "harness/record/watch_control.h"
#include "harness/record/watched_progress.h"

namespace lockstep {

/// Watches whether the ranks of a running job make progress: begin an optimizer step, or call a
/// collective. If none does for the limit, or if a rank is gone and the others stand still, each is
/// asked where it is.
class StallWatch {
 public:
  /// `is_node`: ranks that are not here run on other machines.
  StallWatch(std::filesystem::path folder, double limit_s, bool is_node, WatchControl& control);

  /// Looks once. Returns a stall when its record is written, again when a rank has entered a
  /// collective meanwhile, and when it is over. Throws Error (usage).
  std::optional<Stall> look();

  /// The last step that a rank began, as of the last look; 0: none is known.
  std::int64_t last_step() const;

  /// Kills the ranks that still live, stopped ones, too.
  void kill_ranks() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due(double idle_s) const;
  bool is_known() const;
  bool have_all_answered() const;
  bool have_all_moved() const;
  std::optional<Stall> note_progress(std::map<int, WatchedProgress> progress);

  std::filesystem::path folder_;
  double limit_s_;
  bool is_node_;
  WatchControl& control_;
  std::map<int, WatchedProgress> progress_;
  Clock::time_point moved_ = Clock::now();  ///< when a rank last made progress
  Clock::time_point asked_;
  std::uint32_t request_ = 0;   ///< being answered; 0: none
  bool has_failed_ = false;     ///< where the ranks are could not be recorded
  std::optional<Stall> stall_;  ///< the present one
  Clock::time_point recorded_;  ///< when it was
  std::map<int, WatchedProgress> at_stall_;
};

}  // namespace lockstep
