#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/command.h"

namespace lockstep {

/// Runs `line` in a shell whose standard streams are a terminal of `columns`, TERM being xterm and
/// the locale one of UTF-8. `out` of the outcome is what the terminal was sent, with "\n" for its
/// ends of lines.
inline Outcome run_on_terminal(const std::string& line, unsigned short columns) {
  const winsize size{24, columns, 0, 0};
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("COLUMNS");
    ::unsetenv("NO_COLOR");
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(101);
  }
  Outcome outcome;
  char part[4096];
  for (ssize_t size_read = 0; (size_read = ::read(terminal, part, sizeof part)) > 0;) {
    for (ssize_t i = 0; i < size_read; ++i) {
      const bool ends_line = part[i] == '\r' && i + 1 < size_read && part[i + 1] == '\n';
      if (!ends_line) outcome.out += part[i];
    }
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace lockstep
