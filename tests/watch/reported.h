#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "tests/command.h"

namespace lockstep {

/// The report of a run: how it ends, and its words.
struct Reported {
  int status = 0;
  std::string text;  ///< without the breaks of lines
};

inline Reported reported(const std::filesystem::path& run) {
  const Outcome outcome = run_shell(fmt::format("{} report {}", LOCKSTEP_PROGRAM, run.string()));
  return {outcome.status, unwrapped(outcome.out)};
}

}  // namespace lockstep
