// A program with the scenarios of `registry()` and the full command line of lockstep.

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "harness/cli/catalogue_mark.h"
#include "harness/cli/compare_command.h"
#include "harness/cli/program.h"
#include "harness/cli/report_command.h"
#include "harness/cli/start_variables.h"
#include "harness/run/scenario_commands.h"

namespace {

/// `lockstep` reads it from the file.
[[gnu::used]] const char kMark[] =
    LOCKSTEP_CATALOGUE_MARK "lockstep=" LOCKSTEP_VERSION "\ntorch=" LOCKSTEP_TORCH_VERSION
                            "\nlibrary=" LOCKSTEP_TORCH_LIBRARY "\n";

lockstep::Program program(const std::vector<std::string>& typed) {
  lockstep::Program program;
  program.version = [] { return lockstep::CatalogueVersion{LOCKSTEP_TORCH_VERSION}; };
  program.commands = lockstep::scenario_commands(lockstep::registry(), typed);
  program.commands.push_back(lockstep::report_command());
  program.commands.push_back(lockstep::compare_command());
  return program;
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::remove_start_variables();
  const std::vector<std::string> typed(argv, argv + argc);
  const int status = lockstep::run_program([&] { return program(typed); }, argc, argv);
  // Ends without library destructors, like forked ranks. Torch's destructors unregister its
  // operators one by one, which takes a quarter of a short command's time.
  std::fflush(nullptr);
  ::_exit(status);
}
