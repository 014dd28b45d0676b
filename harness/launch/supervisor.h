#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/launch/descendants.h"
#include "harness/launch/launch.h"
#include "harness/launch/signal_watch.h"

namespace lockstep {

/// Waits for ranks, records their exits and ends remaining processes. Create it before the first
/// rank starts. After its destructor, no process of the ranks or of their children is left.
class Supervisor {
 public:
  /// `clean_up`: time after SIGTERM for a process to end by itself; 0: it is killed.
  explicit Supervisor(const LaunchOptions& options, std::chrono::milliseconds clean_up = {});
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// `pid` is the process of the next rank.
  void add(pid_t pid);

  /// The next rank and all later ones could not be started; `why` is the system's message. Ends the
  /// others.
  void give_up_starting(const std::string& why);

  /// Blocks until all ranks have ended. Returns the signal that asked this process to end, or 0.
  int wait();

  /// One per rank, in rank order, without `last_output`. Requires: `wait` has returned.
  std::vector<RankExit> take_ends() { return std::move(exits_); }

 private:
  using Clock = std::chrono::steady_clock;

  /// Why a rank ended: as a cause for the judge, and in words.
  struct Reason {
    ExitCause cause = ExitCause::none;
    std::string detail;
  };

  void collect(pid_t first);
  void collect_rank(std::size_t rank);
  void note_end(std::size_t rank, ExitKind ending, int code, Reason reason);
  void note_status(std::size_t rank, int status);
  void hurry(int failed_rank);
  void end_interrupted(int signal);
  void look_at_progress();
  void look_at_peers();
  Clock::time_point deadline() const;
  Clock::time_point next_look() const;
  void ask_rest_to_end();
  bool is_any_left() const;
  void end_rest(const Reason& reason);
  void end_late();
  int reap(std::size_t rank);

  SignalWatch signals_;
  Descendants descendants_;
  const std::chrono::milliseconds limit_;
  const std::chrono::milliseconds grace_;
  const std::chrono::milliseconds clean_up_;
  const Clock::time_point last_moment_;  ///< for the whole cell
  std::chrono::milliseconds silence_;    ///< allowed from now on
  Clock::time_point heard_;              ///< time of the last progress
  Clock::time_point looked_;             ///< time of the last poll
  const std::function<std::uint64_t()> progress_;
  std::uint64_t reached_ = 0;  ///< last value of `progress_`
  const std::function<PeerState()> look_at_peers_;
  std::optional<int> hurried_by_;  ///< rank whose failure moved the deadline forward
  std::vector<pid_t> pids_;        ///< by rank; 0 once reaped
  std::vector<RankExit> exits_;
  int ended_ = 0;
  int interruption_ = 0;  ///< the signal that asked this process to end; 0: none
};

}  // namespace lockstep
