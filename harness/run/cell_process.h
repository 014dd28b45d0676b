#pragma once

#include <sys/types.h>

#include <functional>

#include "reports/base/unique_fd.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A process that runs a cell, so that several cells can run at a time with separate supervisors.
/// The destructor, or the end of this process, ends it with its ranks. Requires: this process has
/// one thread, has run no torch operation and blocks no signal.
class CellProcess {
 public:
  /// Calls `run` in the new process. Throws Error (machine) if no process can be created.
  explicit CellProcess(const std::function<CellRecord()>& run);
  ~CellProcess();
  CellProcess(CellProcess&& other) noexcept;
  CellProcess& operator=(CellProcess&&) = delete;

  bool has_ended() const;

  /// For a process that is forked later: closes the descriptors that only this one reads.
  void leave_to_parent();

  /// Forwards a signal of this process to it.
  void interrupt(int signal) const;

  /// Returns the result of `run` or rethrows its exception. Throws Error (machine) if the process
  /// was ended before. Requires: `has_ended()`. Call once.
  CellRecord take();

 private:
  int reap();

  pid_t pid_ = 0;     ///< 0 once reaped
  UniqueFd outcome_;  ///< a memory file in which the process writes its record or error
};

}  // namespace lockstep
