#include "harness/launch/signal_watch.h"

#include <cerrno>
#include <ctime>

namespace lockstep {
namespace {

bool is_ignored(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

timespec as_timespec(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

}  // namespace

SignalWatch::SignalWatch() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // An ignored signal that is blocked would still be queued, but `nohup` must keep its effect.
    if (!is_ignored(number)) sigaddset(&watched_, number);
  }
  // If a caller ignores SIGCHLD, the kernel discards the status of its children.
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &by_default, &previous_child_action_);
  ::sigprocmask(SIG_BLOCK, &watched_, &previous_mask_);
}

SignalWatch::~SignalWatch() {
  ::sigaction(SIGCHLD, &previous_child_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

std::optional<siginfo_t> SignalWatch::next(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return std::nullopt;
    const timespec timeout = as_timespec(left);
    siginfo_t info{};
    if (::sigtimedwait(&watched_, &info, &timeout) > 0) return info;
    if (errno != EINTR && errno != EAGAIN) return std::nullopt;
  }
}

}  // namespace lockstep
