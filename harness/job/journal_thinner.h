#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "harness/job/rank_follower.h"
#include "harness/record/watch_control.h"

namespace lockstep {

/// Bounds the rows of a running job: of old segments in which all ranks were seen to agree, it
/// removes the rows of most steps. Their entries in the index stay. The ranks are told, so that
/// they go on observing every step.
class JournalThinner {
 public:
  /// The first segments of a rank's journal stay whole: another job is compared from its begin on.
  static constexpr std::size_t kFirstSegments = 4;
  /// So do the last ones that have ended.
  static constexpr std::size_t kLastSegments = 8;

  /// `folder`: of the job's files.
  JournalThinner(std::filesystem::path folder, WatchControl& control)
      : folder_(std::move(folder)), control_(control) {}

  /// Thins at most one segment of each rank. `ahead`: the ranks are told in time of what holds so
  /// many steps later. Nothing is removed any more once ranks differ, values are stored, or a file
  /// cannot be written.
  void look(const RankFollower& follower, std::int64_t ahead);

 private:
  void thin_one(int rank, const std::vector<std::int64_t>& ended, const RankFollower& follower);
  void tell(const RankFollower& follower, std::int64_t ahead);

  std::filesystem::path folder_;
  WatchControl& control_;
  std::map<int, std::size_t> thinned_;  ///< segments, by rank
  std::size_t told_ = 0;                ///< segments of each rank
  std::int64_t told_from_ = 0;          ///< step from which on they count
  bool has_failed_ = false;
};

}  // namespace lockstep
