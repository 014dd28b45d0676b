#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "reports/base/status_line.h"

namespace lockstep {

/// The status line of long reading: "reading: 40 %, 12 s left".
std::string progress_in_words(std::uint64_t done, std::uint64_t total,
                              std::chrono::duration<double> elapsed);

/// Shows the progress of reading once it takes more than a second.
class ReadingProgress {
 public:
  /// `total`: bytes to read.
  explicit ReadingProgress(std::uint64_t total) : total_(total) {}

  void add(std::uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  StatusLine line_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point due_ = begin_ + std::chrono::seconds(1);
};

}  // namespace lockstep
