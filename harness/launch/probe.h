#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// How a look at something foreign ended, and what was printed meanwhile.
struct Probe {
  RankExit end;        ///< `unstarted` where no process could be made
  std::string output;  ///< standard output and error, the first 64 KiB
};

/// Runs `body` in a child process, so that whatever it calls may crash, hang or load libraries
/// without harm to this process. Its status is what `body` returns. After `limit` it is killed with
/// all that it started. It leaves no core file and may write at most 16 MiB.
/// Requires: this process has one thread.
Probe probe(const std::function<int()>& body, std::chrono::milliseconds limit);

/// The same for a program: `words` are its path and its arguments. Status 127 when it cannot be
/// started, with the reason as its output.
Probe probe_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

/// Makes this process that program. Returns 127 when it cannot, with the reason on standard error.
int become(const std::vector<std::string>& words);

/// The first line of `text` that is not blank, without the blanks around it; empty when there is
/// none.
std::string first_line(const std::string& text);

}  // namespace lockstep
