#include "harness/run/doctor.h"

#include <fmt/format.h>

#include <string>

#include "harness/cli/catalogue_program.h"
#include "harness/cli/doctor_command.h"
#include "harness/cli/doctor_sheet.h"
#include "harness/cli/standard_output.h"
#include "harness/run/capabilities.h"
#include "harness/run/rehearsal.h"
#include "harness/run/try_backends.h"
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

/// Where no ranks can start, no backend is tried.
void say_untried_backends(DoctorSheet& sheet, std::chrono::milliseconds limit) {
  for (const Backend backend : {Backend::gloo, Backend::mpi, Backend::nccl}) {
    sheet.say(find_backend_capability(backend, limit));
  }
}

/// Returns why two ranks cannot use gloo; empty if they can.
std::string say_backends(DoctorSheet& sheet, std::chrono::milliseconds limit) {
  std::string problem = rehearse(limit);
  if (!problem.empty()) {
    say_untried_backends(sheet, limit);
    return problem;
  }
  sheet.say("gloo: two ranks reduced a tensor");
  for (const Capability& backend : try_backends(limit)) sheet.say(backend);
  return {};
}

ExitStatus examine(const DoctorQuestion& question) {
  if (question.is_one_rank_of_mpi) {
    try_mpi_as_rank(question.limit);
    return ExitStatus::as_expected;
  }
  const std::chrono::milliseconds limit = question.limit;
  DoctorSheet sheet;
  if (!question.is_machine_told) say_machine(sheet, limit, loaded_torch().file);
  std::string problem = say_torch(sheet);
  if (problem.empty()) problem = fault_of_machine();
  sheet.begin("backends");
  if (problem.empty()) {
    problem = say_backends(sheet, limit);
  } else {
    say_untried_backends(sheet, limit);
  }
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
