#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace lockstep {

/// While it lives, the end of a child and the signals that ask this process to end (SIGINT,
/// SIGTERM, SIGHUP, unless it ignores them) are kept for `next` instead of being delivered.
/// Requires one thread.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Waits for one of them; nothing when none came before `deadline`.
  std::optional<siginfo_t> next(std::chrono::steady_clock::time_point deadline);

 private:
  sigset_t watched_;
  sigset_t previous_mask_;
  struct sigaction previous_child_action_;
};

}  // namespace lockstep
