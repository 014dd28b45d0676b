#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How the command of a job ended.
struct JobEnd {
  int status = 0;          ///< of its exit; 128 + n for signal n, as a shell reports it
  int interrupted_by = 0;  ///< the signal by which the user asked it to end; 0: none
  bool is_cut = false;     ///< Lockstep ended it, because its ranks differed
};

/// The command of a watched job as a child process. It shares input, output and terminal with this
/// process, as if it had been started without Lockstep.
class JobProcess {
 public:
  /// Starts `command` with the environment of this process and `variables`, which replace others of
  /// the same name. Throws Error (usage) if it cannot be started.
  JobProcess(const std::vector<std::string>& command,
             const std::vector<std::pair<std::string, std::string>>& variables);

  /// Waits for its end, and calls `meanwhile` several times a second. Passes on the signals that an
  /// Interruption has noted, unless the terminal already sent them to the job.
  JobEnd wait(const std::function<void()>& meanwhile);

  /// Asks the job to end, by SIGTERM.
  void terminate() const;

 private:
  void pass_on_signal();

  pid_t pid_;
  bool has_passed_on_ = false;
};

}  // namespace lockstep
