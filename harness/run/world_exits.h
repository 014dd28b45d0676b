#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/rank_exit.h"

namespace lockstep {

/// The exits of the ranks of one world. A foreign launcher's processes write them into the cell's
/// folder one by one.
class WorldExits {
 public:
  WorldExits(std::filesystem::path folder, Cell cell);

  /// Reads new ones. Throws Error (usage) for one that is malformed or of another cell.
  void look();

  bool is_complete() const { return static_cast<int>(exits_.size()) >= cell_.world_size; }

  /// Whether no rank has written any sign.
  bool is_empty() const;

  /// The rank that failed first, by time.
  std::optional<int> failed_rank() const;

  /// The world size that a rank was given, if it differs from this one's.
  std::optional<int> other_world_size() const;

  /// One exit per rank, in rank order, with the last lines of its log if it did not finish. A rank
  /// without a record did not finish, or was not started if there is no sign of it. Its detail is
  /// `why`, and it is ordered after those with a record.
  std::vector<RankExit> exits(const std::string& why) const;

  /// Call after the launcher has gone. A rank without a record that was working until then was
  /// ended by the launcher because of another's failure.
  void tell_whom_the_launcher_ended(std::vector<RankExit>& exits) const;

 private:
  struct Failure {
    int rank = 0;
    std::filesystem::file_time_type recorded;
  };

  std::optional<Failure> first_failure() const;
  bool have_met() const;
  bool was_started(int rank) const;

  std::filesystem::path folder_;
  Cell cell_;
  std::map<int, LaunchedExit> exits_;
};

}  // namespace lockstep
