#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/rank_exit.h"

namespace lockstep {

/// The ends of the ranks of one world, as the processes that a foreign launcher started write them
/// into the cell's folder one by one.
class WorldExits {
 public:
  WorldExits(std::filesystem::path folder, Cell cell);

  /// Reads those that came since. Throws Error (usage) for one that is malformed or of another
  /// cell.
  void look();

  bool is_complete() const { return static_cast<int>(exits_.size()) >= cell_.world_size; }

  /// Whether no rank left a sign of itself.
  bool is_empty() const;

  /// A rank that ended badly; the first of them, in time.
  std::optional<int> failed_rank() const;

  /// The size of the world that a rank was told, where it is not this one's.
  std::optional<int> other_world_size() const;

  /// One end per rank, in rank order, with the last lines of its log where it did not finish. A
  /// rank that left no word did not finish, or was not started where nothing says that it was;
  /// `why` is its detail, and it comes behind those that left one.
  std::vector<RankExit> exits(const std::string& why) const;

  /// For when the launcher has gone. Of ranks that left no word it says that the launcher ended
  /// them for another's failure, where they were at work until then.
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
