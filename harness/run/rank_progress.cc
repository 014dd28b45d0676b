#include "harness/run/rank_progress.h"

#include <system_error>

#include "harness/record/journal.h"
#include "harness/record/rank_status.h"

namespace lockstep {

namespace fs = std::filesystem;

RankProgress::RankProgress(const fs::path& folder, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back({journal_file(folder, rank), rank_status_file(folder, rank),
                      LiveCollectiveLog(collective_log_file(folder, rank))});
  }
}

std::uint64_t RankProgress::reached() {
  std::uint64_t sum = 0;
  bool have_all_begun = true;
  for (Files& files : ranks_) {
    std::error_code missing;
    const std::uint64_t bytes = fs::file_size(files.journal, missing);
    if (!missing) sum += bytes;
    const auto written = fs::last_write_time(files.status, missing);
    if (!missing && written != files.status_written) ++files.statuses;
    if (!missing) files.status_written = written;
    const std::uint64_t calls = files.collectives.count();
    sum += files.statuses + calls;
    have_all_begun = have_all_begun && files.statuses + calls > 0;
  }
  // A rank that has not begun may still be starting.
  if (!have_all_begun) ++looks_;
  return sum + looks_;
}

}  // namespace lockstep
