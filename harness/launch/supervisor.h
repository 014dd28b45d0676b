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

/// Waits for ranks, notes how they ended and ends what is left over. Made before the first rank is
/// started; when it goes, no process of the ranks and of their children
/// is left.
class Supervisor {
 public:
  /// `clean_up`: how long what has to end may take to do so itself, once SIGTERM has asked it;
  /// 0: it is killed.
  explicit Supervisor(const LaunchOptions& options, std::chrono::milliseconds clean_up = {});
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// `pid` is the process of the next rank.
  void add(pid_t pid);

  /// The next rank and all after it could not be started; `why` in the system's words. Ends the
  /// others.
  void give_up_starting(const std::string& why);

  /// Blocks until all ranks have ended. Returns the signal that asked this process to end, 0 when
  /// none did.
  int wait();

  /// One per rank, in rank order, without `last_output`. Requires that `wait` returned.
  std::vector<RankExit> take_ends() { return std::move(exits_); }

 private:
  using Clock = std::chrono::steady_clock;

  /// Why a rank ended: for the judge, and in words.
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
  const Clock::time_point last_moment_;  ///< of the whole cell
  std::chrono::milliseconds silence_;    ///< that ranks may keep from now on
  Clock::time_point heard_;              ///< when a rank last came further
  Clock::time_point looked_;             ///< when that was asked last
  const std::function<std::uint64_t()> progress_;
  std::uint64_t reached_ = 0;  ///< what `progress_` said last
  const std::function<PeerState()> look_at_peers_;
  std::optional<int> hurried_by_;  ///< rank whose failure brought the deadline forward
  std::vector<pid_t> pids_;        ///< by rank; 0 once reaped
  std::vector<RankExit> exits_;
  int ended_ = 0;
  int interruption_ = 0;  ///< the signal that asked this process to end; 0: none
};

}  // namespace lockstep
