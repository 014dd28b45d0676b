#pragma once

#include <chrono>

namespace lockstep {

/// Signals that arrive this soon after the first are the same request: `timeout` sends two.
inline constexpr std::chrono::milliseconds kSameInterruption{1000};

/// While it exists, the first SIGINT, SIGTERM or SIGHUP is only recorded, so that a command can
/// finish its current work. Another signal, later than `same`, ends this process at once. Ignored
/// signals stay ignored. Inside another one it changes nothing.
class Interruption {
 public:
  explicit Interruption(std::chrono::milliseconds same = kSameInterruption);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The recorded signal; 0: none.
  static int noted();
};

}  // namespace lockstep
