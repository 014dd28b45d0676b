#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace lockstep {

/// Result of a program.
struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

/// The content of a file; empty if there is none.
inline std::string text_if_there(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The content of a file, which must be there.
inline std::string text_of(const std::filesystem::path& file) {
  EXPECT_TRUE(std::ifstream(file)) << file;
  return text_if_there(file);
}

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// Jobs in the background of a shell ignore interruptions, those of nohup a lost terminal, and
/// their children inherit that. Tests need the defaults.
inline void take_signals_again() {
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler == SIG_IGN) std::signal(signal, SIG_DFL);
  }
}

/// Runs `line` in a shell and waits for it. A signal gives 128 plus its number.
inline Outcome run_shell(const std::string& line) {
  take_signals_again();
  const TemporaryFolder folder;
  const auto out = folder.path() / "out";
  const auto err = folder.path() / "err";
  const std::string command = "( " + line + " ) >" + out.string() + " 2>" + err.string();
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = text_of(out);
  outcome.err = text_of(err);
  return outcome;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// In one line, so that a test does not depend on wrapping.
inline std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace lockstep
