#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cli/command.h"

namespace lockstep {

/// A program with the command line of `lockstep`.
struct Program {
  std::function<std::string()> version;  ///< what `--version` prints
  std::vector<Command> commands;         ///< those of `kCommands` that it can do itself
  /// What becomes of all others, with the whole command line.
  std::function<ExitStatus(char* const*)> pass_on;
};

/// Arguments in, text and exit status out. `make` may throw. Catches every Error and prints it as
/// one sentence on standard error. The program is called what `argv[0]` calls it. Without arguments
/// it prints its help there and fails.
int run_program(const std::function<Program()>& make, int argc, char** argv);

}  // namespace lockstep
