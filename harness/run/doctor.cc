#include "harness/run/doctor.h"

#include <fmt/format.h>

#include <string>

#include "harness/cli/catalogue_program.h"
#include "harness/cli/doctor_command.h"
#include "harness/cli/doctor_sheet.h"
#include "harness/cli/standard_output.h"
#include "harness/run/capabilities.h"
#include "harness/run/rehearsal.h"
#include "harness/train/rank/loaded_torch.h"

namespace lockstep {

namespace {

/// Returns why the loaded torch is unusable; empty if it works.
std::string say_torch(DoctorSheet& sheet) {
  const LoadedTorch torch = loaded_torch();
  const bool is_known = !torch.version.empty();
  const bool is_same = torch_release(torch.version) == torch_release(LOCKSTEP_TORCH_VERSION);
  sheet.begin("torch");
  sheet.say("built against " LOCKSTEP_TORCH_VERSION);
  sheet.say(fmt::format("loaded {}, {}, from", is_known ? torch.version : "an unknown version",
                        is_same ? "the same release" : "another release"));
  sheet.say(torch.file);
  if (is_same) return {};
  sheet.advise("unset LD_LIBRARY_PATH and LD_PRELOAD, or build Lockstep again with this torch");
  return fmt::format("it was built against torch {}, but has loaded {}.", LOCKSTEP_TORCH_VERSION,
                     is_known ? torch.version : "an unknown version");
}

void say_backends(DoctorSheet& sheet, std::chrono::milliseconds limit) {
  sheet.begin("backends");
  for (const std::string& name : known_backends()) {
    sheet.say(find_backend_capability(name, limit));
  }
}

ExitStatus examine(std::chrono::milliseconds limit, bool is_machine_shown) {
  DoctorSheet sheet;
  if (!is_machine_shown) say_machine(sheet, limit, loaded_torch().file);
  std::string problem = say_torch(sheet);
  say_backends(sheet, limit);
  if (problem.empty()) problem = fault_of_machine();
  if (problem.empty()) problem = rehearse(limit);
  sheet.conclude(problem.empty()
                     ? "'lockstep run' can work here: two ranks met on 127.0.0.1, reduced a tensor "
                       "over gloo and wrote test files into this folder, which were removed."
                     : run_cannot_work(problem));
  write_standard_output(sheet.text());
  return problem.empty() ? ExitStatus::as_expected : ExitStatus::failed;
}

}  // namespace

Command doctor_with_ranks() { return doctor_command(examine); }

}  // namespace lockstep
