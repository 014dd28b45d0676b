#pragma once

#include <sys/types.h>

#include <functional>

namespace lockstep {

/// A helper process, forked without exec, that runs `body`. The destructor, or the end of this
/// process, ends it with its whole process group. Its output is lost. Requires: this process has
/// one thread and has run no torch operation.
class HelperProcess {
 public:
  /// Throws Error (usage) when no process can be created.
  explicit HelperProcess(const std::function<void()>& body);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

 private:
  pid_t pid_ = 0;
};

}  // namespace lockstep
