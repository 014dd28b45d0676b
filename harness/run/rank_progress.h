#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/record/collective_log.h"

namespace lockstep {

/// Progress of a cell's ranks, measured by the files that they write: rows of journals, steps
/// begun, collectives called. One thread.
class RankProgress {
 public:
  RankProgress(const std::filesystem::path& folder, int ranks);

  /// A number that never decreases. It grows when a rank makes progress, and as long as one has not
  /// begun.
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
