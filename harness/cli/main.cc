// The program `lockstep`. It implements the commands that need no scenarios. For the others it
// becomes the catalogue, a program linked with torch.

#include "harness/cli/catalogue_program.h"
#include "harness/cli/compare_command.h"
#include "harness/cli/diff_command.h"
#include "harness/cli/doctor_command.h"
#include "harness/cli/explain_command.h"
#include "harness/cli/pack_command.h"
#include "harness/cli/program.h"
#include "harness/cli/report_command.h"
#include "harness/cli/runs_command.h"
#include "harness/cli/validate_command.h"
#include "harness/cli/watch_command.h"
#include "reports/base/error.h"

namespace {

lockstep::CatalogueVersion version() {
  try {
    return {lockstep::find_catalogue().torch_version};
  } catch (const lockstep::Error& error) {
    if (!lockstep::is_catalogue_expected()) return {{}, "no catalogue"};
    return {{}, "a catalogue that cannot be started", error.what()};
  }
}

lockstep::Program program() {
  return {version,
          {lockstep::watch_command(), lockstep::validate_command(), lockstep::report_command(),
           lockstep::diff_command(), lockstep::compare_command(), lockstep::explain_command(),
           lockstep::runs_command(), lockstep::pack_command(), lockstep::doctor_command()},
          [](char* const* arguments) -> lockstep::ExitStatus {
            lockstep::become_catalogue(arguments);
          }};
}

}  // namespace

int main(int argc, char** argv) { return lockstep::run_program(program, argc, argv); }
