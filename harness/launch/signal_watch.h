#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

namespace lockstep {

/// While it exists, `next` receives ends of children and signals that ask this process to end,
/// instead of their normal delivery. The signals are SIGINT, SIGTERM and SIGHUP, unless this
/// process ignores them. Requires one thread.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Waits for one of them; empty if none came before `deadline`.
  std::optional<siginfo_t> next(std::chrono::steady_clock::time_point deadline);

 private:
  sigset_t watched_;
  sigset_t previous_mask_;
  struct sigaction previous_child_action_;
};

}  // namespace lockstep
