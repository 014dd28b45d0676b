#pragma once

#include <sys/types.h>

#include <functional>

namespace lockstep {

/// A process beside this one, forked without exec, which runs `body` and is ended with all that
/// shares its process group when this goes, or when this process does. What it prints is lost.
/// Requires: this process has one thread and has run no torch operation.
class Companion {
 public:
  /// Throws Error (usage) when no process can be made.
  explicit Companion(const std::function<void()>& body);
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

 private:
  pid_t pid_ = 0;
};

}  // namespace lockstep
