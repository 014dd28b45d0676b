#include "harness/cli/reading_progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string progress_in_words(std::uint64_t done, std::uint64_t total,
                              std::chrono::duration<double> elapsed) {
  const double part =
      total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  if (part == 0 || part == 1) return "reading";
  return fmt::format("reading: {:.0f} %, {:.0f} s left", 100 * part,
                     elapsed.count() * (1 - part) / part);
}

void ReadingProgress::add(std::uint64_t bytes) {
  done_ += bytes;
  const Clock::time_point now = Clock::now();
  if (now < due_) return;
  due_ = now + std::chrono::milliseconds(200);
  line_.show(progress_in_words(done_, total_, now - begin_));
}

}  // namespace lockstep
