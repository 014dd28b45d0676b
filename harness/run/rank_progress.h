#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/record/collective_log.h"

namespace lockstep {

/// How far the ranks of a cell have come, by the files that they write meanwhile: rows of journals,
/// steps begun, collectives called. One thread.
class RankProgress {
 public:
  RankProgress(const std::filesystem::path& folder, int ranks);

  /// A number that only grows, and does when a rank comes further, or as long as one has not begun.
  std::uint64_t reached();

 private:
  struct Files {
    std::filesystem::path journal;
    std::filesystem::path status;
    LiveCollectiveLog collectives;
    std::filesystem::file_time_type status_written = {};
    std::uint64_t statuses = 0;
  };
  std::vector<Files> ranks_;
  std::uint64_t looks_ = 0;
};

}  // namespace lockstep
