#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Exit of a probed process, and its output.
struct Probe {
  RankExit end;        ///< `unstarted` if no process could be created
  std::string output;  ///< standard output and error, the first 64 KiB
};

/// Runs `body` in a child process, so that it may crash, hang or load libraries without harm to
/// this process. The return value of `body` is the status. After `limit` the child is killed with
/// all its descendants. It leaves no core file and may write at most 16 MiB. Requires: this process
/// has one thread.
Probe probe(const std::function<int()>& body, std::chrono::milliseconds limit);

/// The same for a program: `words` are its path and arguments. Status 127 if it cannot be started,
/// with the reason as its output.
Probe probe_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

/// Replaces this process by that program. Returns 127 if it cannot, with the reason on standard
/// error.
int become(const std::vector<std::string>& words);

/// The first non-blank line of `text`, trimmed; empty if there is none.
std::string first_line(const std::string& text);

}  // namespace lockstep
