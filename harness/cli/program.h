#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cli/command.h"
#include "harness/cli/version.h"

namespace lockstep {

/// A program with the command line of `lockstep`.
struct Program {
  std::function<CatalogueVersion()> version;  ///< for `--version`
  std::vector<Command> commands;              ///< the part of `kCommands` that it implements
  /// Handles all other commands, with the whole command line.
  std::function<ExitStatus(char* const*)> pass_on;
};

/// Arguments in, text and exit status out. `make` may throw. Catches every Error and prints it as
/// one sentence on standard error. The program's name is that of `argv[0]`. Without arguments it
/// prints its help there and fails.
int run_program(const std::function<Program()>& make, int argc, char** argv);

}  // namespace lockstep
