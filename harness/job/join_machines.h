#pragma once

#include <filesystem>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A run to be judged, and its folders: several if the machines of a job were watched one by one.
struct JoinedRun {
  std::vector<std::filesystem::path> folders;
  RunRecord run;

  /// The folder that the record's folders are in.
  std::filesystem::path root() const {
    return folders.size() == 1 ? folders[0] : std::filesystem::path();
  }
};

/// Makes one run of those that watched the machines of one job: each lacks ranks, no two have a
/// rank in common, and their ranks met at the same port. Other runs stay as they are. Nothing
/// compares the clocks of machines. Throws Error (usage) if the file of a stall is malformed.
std::vector<JoinedRun> join_machines(std::vector<JoinedRun> runs);

/// The folders of the machines that share one, sorted: `lockstep watch --node`. Empty: they do not.
/// Throws Error (usage) if one of them has a malformed record.
std::vector<std::filesystem::path> folders_of_machines(const std::filesystem::path& shared);

}  // namespace lockstep
