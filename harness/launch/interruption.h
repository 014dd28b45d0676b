#pragma once

#include <chrono>

namespace lockstep {

/// Signals that come this soon after the first are the same request: `timeout` sends two.
inline constexpr std::chrono::milliseconds kSameInterruption{1000};

/// While it lives, the first SIGINT or SIGTERM is noted and has no other effect, so that a command
/// can finish what it has; another one, later than `same`, ends this process at once. What was
/// ignored before stays ignored. One at a time.
class Interruption {
 public:
  explicit Interruption(std::chrono::milliseconds same = kSameInterruption);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The signal that was noted; 0: none.
  static int noted();
};

}  // namespace lockstep
