#pragma once

#include <sys/types.h>

#include <filesystem>
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

/// Where a command runs, and to what it prints.
struct JobPlace {
  std::filesystem::path folder = {};  ///< empty: the current one
  /// A file for its standard output and error; empty: those of this process.
  std::filesystem::path output = {};
};

/// The command of a watched job as a child process. It shares input, output and terminal with this
/// process, as if it had been started without Lockstep.
class JobProcess {
 public:
  /// Starts `command` with the environment of this process and `variables`, which replace others of
  /// the same name; PATH among them is where the command is searched. Throws Error (usage) if it
  /// cannot be started.
  JobProcess(const std::vector<std::string>& command,
             const std::vector<std::pair<std::string, std::string>>& variables,
             const JobPlace& place = {});

  /// Waits for its end, and calls `meanwhile` several times a second. Passes on the signals that an
  /// Interruption has noted, unless the terminal already sent them to the job.
  JobEnd wait(const std::function<void()>& meanwhile);

  /// Waits for its end, and passes on no signal: for a command that cleans up.
  JobEnd wait_for_cleanup();

  /// Asks the job to end, by SIGTERM.
  void terminate() const;

 private:
  void pass_on_signal();

  pid_t pid_;
  bool has_passed_on_ = false;
};

}  // namespace lockstep
