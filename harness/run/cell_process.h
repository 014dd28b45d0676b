#pragma once

#include <sys/types.h>

#include <functional>

#include "reports/base/unique_fd.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A process that runs a cell, so that several run at a time: each has a supervisor of its own. It
/// is ended, with its ranks, when this goes or when this process does. Requires: this process has
/// one thread, has run no torch operation and blocks no signal.
class CellProcess {
 public:
  /// `run` is called in the new process. Throws Error (machine) when no process can be made.
  explicit CellProcess(const std::function<CellRecord()>& run);
  ~CellProcess();
  CellProcess(CellProcess&& other) noexcept;
  CellProcess& operator=(CellProcess&&) = delete;

  bool has_ended() const;

  /// For a process that is forked later: closes what only this one reads.
  void leave_to_parent();

  /// Hands a signal that this process got on to it.
  void interrupt(int signal) const;

  /// What `run` returned, or throws what it threw. Error (machine) where the process was ended
  /// before. Requires: `has_ended()`. Once.
  CellRecord take();

 private:
  int reap();

  pid_t pid_ = 0;     ///< 0 once reaped
  UniqueFd outcome_;  ///< a file in memory, which the process leaves its record or its error in
};

}  // namespace lockstep
