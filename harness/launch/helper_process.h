#pragma once

#include <sys/types.h>

#include <functional>

namespace lockstep {

/// A process beside this one, forked without exec, which runs `body` and is ended with all that
/// shares its process group when this goes, or when this process does. What it prints is lost.
/// Requires: this process has one thread and has run no torch operation.
class HelperProcess {
 public:
  /// Throws Error (usage) when no process can be made.
  explicit HelperProcess(const std::function<void()>& body);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

 private:
  pid_t pid_ = 0;
};

}  // namespace lockstep
