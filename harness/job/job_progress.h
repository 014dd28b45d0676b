#pragma once

#include <chrono>
#include <string>

namespace lockstep {

/// Says how far a job came, on stderr, and never on a line of the job: in the title of the terminal
/// when that changes, and on a line of its own at most once a minute. Without a terminal, as in
/// logs and notebooks, that line alone.
class JobProgress {
 public:
  using Clock = std::chrono::steady_clock;

  explicit JobProgress(Clock::time_point now);
  ~JobProgress();  ///< gives the terminal its title back
  JobProgress(const JobProgress&) = delete;
  JobProgress& operator=(const JobProgress&) = delete;

  void show(const std::string& text, Clock::time_point now);

 private:
  void show_in_title(const std::string& text);

  bool is_terminal_;
  bool has_titles_;
  std::string title_;  ///< empty: that of before
  std::string line_;   ///< the last one
  Clock::time_point printed_;
};

}  // namespace lockstep
