#include "harness/run/run_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "harness/cli/github_step.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/launch/interruption.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/launch/launcher_command.h"
#include "harness/launch/machine.h"
#include "harness/plan/empty_tables.h"
#include "harness/plan/select_cells.h"
#include "harness/record/environment.h"
#include "harness/record/folder_lock.h"
#include "harness/record/run_folder.h"
#include "harness/run/direct_start.h"
#include "harness/run/jobs.h"
#include "harness/run/run_cell.h"
#include "harness/run/run_cells.h"
#include "harness/verdict/judge_run.h"
#include "reference/published_table.h"
#include "reports/base/current_folder.h"
#include "reports/base/error.h"
#include "reports/base/secrets.h"
#include "reports/formats/renderer.h"
#include "reports/record/result.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNoLauncher = "none";
/// The default launcher of ranks connected by MPI.
constexpr const char* kMpiLauncher = "mpirun -n {ranks}";

/// Reports an unreadable table before the ranks run, not after.
void check_promised_tables(const std::vector<PlannedCell>& cells) {
  for (const PlannedCell& planned : cells) {
    for (const std::string& id : planned.expectation.meets) {
      read_published_table(published_table_file(id));
    }
  }
}

}  // namespace

RunRecord plan_record(const RunRequest& request, const Plan& plan, const std::string& launcher) {
  RunRecord run;
  run.command = mask_command(request.command);
  run.environment = describe_environment(utc_now());
  run.environment.lockstep_version = LOCKSTEP_VERSION;
  run.environment.torch_version = LOCKSTEP_TORCH_VERSION;
  run.environment.compiler = LOCKSTEP_COMPILER;
  run.tables = empty_tables_of(plan.cells);
  run.notes = plan.notes;
  plan_cells(run, plan.cells, launcher);
  return run;
}

namespace {

/// Runs this process as the one rank given by a foreign launcher.
ExitStatus run_as_rank(const RunRequest& request, const std::vector<Scenario>& scenarios,
                       const ForeignPlacement& placement) {
  require_current_folder();
  return request.cell_folder.empty() ? direct_start(request, scenarios, placement)
                                     : be_rank_of_cell(request, scenarios, placement);
}

/// The requested launcher, or the one that the backend needs; absent: ranks are forked.
std::optional<LauncherCommand> launcher_of(const RunRequest& request) {
  const bool needs_mpirun = request.selection.backend == Backend::mpi;
  if (needs_mpirun && request.launcher == kNoLauncher) throw no_mpi_launcher();
  if (!request.launcher.empty() && request.launcher != kNoLauncher) {
    return LauncherCommand(request.launcher);
  }
  if (needs_mpirun) return LauncherCommand(kMpiLauncher);
  return std::nullopt;
}

/// The ranks of a launcher cannot be counted here, so it runs one cell at a time.
int jobs_of(const RunRequest& request, const std::vector<PlannedCell>& cells, bool has_launcher) {
  if (!has_launcher) return request.jobs ? *request.jobs : default_jobs(cells);
  if (request.jobs.value_or(1) == 1) return 1;
  throw bad_value("--jobs", std::to_string(*request.jobs), "1 if a launcher starts the ranks");
}

/// "Interrupted: 31 of 261 cells done, 31 as expected."
std::string interrupted_in_words(const RunRecord& run) {
  std::string text =
      fmt::format("Interrupted: {} of {} cells done", cells_that_ran(run), run.cells.size());
  for (std::size_t i = 0; i < Names<Result>::values.size(); ++i) {
    const auto count = std::count_if(run.cells.begin(), run.cells.end(), [&](const auto& cell) {
      return cell.processes > 0 && result_of(cell) == static_cast<Result>(i);
    });
    if (count > 0) text += fmt::format(", {} {}", count, Names<Result>::values.at(i));
  }
  return text + ".";
}

ExitStatus say_interrupted(const RunRecord& run, const std::string& folder) {
  std::fputs(
      fmt::format("{} Report: lockstep report {}\n", interrupted_in_words(run), folder).c_str(),
      stderr);
  return exit_status_of_signal(Interruption::noted());
}

}  // namespace

ExitStatus run_command(const RunRequest& request, const std::vector<Scenario>& scenarios) {
  if (request.launcher.empty()) {
    const auto placement = foreign_placement(::getenv);
    if (placement) return run_as_rank(request, scenarios, *placement);
    if (!request.cell_folder.empty()) throw launcher_gave_no_rank();
  }
  const std::optional<LauncherCommand> launcher = launcher_of(request);
  Selection selection = request.selection;
  std::optional<Capability> gpus;
  if (needs_gpus(scenarios, selection)) {
    gpus = find_gpu_capability(kAnswerLimit);
    selection.gpus = gpus_for_plan(*gpus);
  }
  const Plan plan = select_cells(scenarios, selection);
  const std::vector<PlannedCell>& cells = plan.cells;
  const std::vector<const Renderer*> chosen = find_renderers(request.formats);
  check_backend(selection.backend);
  check_promised_tables(cells);
  require_current_folder();
  check_requirements(request.requirements, gpus);
  if (!launcher) check_machine(most_ranks(cells));
  const int jobs = jobs_of(request, cells, launcher.has_value());
  RunRecord run = plan_record(request, plan, launcher ? launcher->text() : "");
  run.environment.jobs = jobs;
  if (gpus && gpus->is_there && most_ranks(cells) > 0) {
    run.notes.push_back(fmt::format(
        "on {}, without TF32 and sums of reduced precision; torch was asked for deterministic "
        "kernels",
        gpus->text));
  }
  const fs::path shown_folder = make_run_folder(request.out, run, request.readers);
  // A rank may change its directory.
  const fs::path folder = fs::absolute(shown_folder);
  const FolderLock lock(folder);

  const Interruption interruption;
  run_cells(
      cells,
      {jobs, request.limit, launcher ? &*launcher : nullptr, request.verbosity, request.fails_fast},
      folder, run);

  judge_run(run, folder, {.fills_charts = has_charts(chosen)});
  save_record(folder, run);
  const auto unwritten = write_reports(chosen, run, folder.string(), request.known, stdout);
  if (Interruption::noted() != 0) return say_interrupted(run, shown_folder);
  write_standard_output(render_screen(run, screen_of(STDOUT_FILENO, request.verbosity,
                                                     shown_folder.string(), chosen)) +
                        known_in_words(run, request.known));
  if (unwritten) throw *unwritten;
  const ExitStatus status = exit_status(without_known(run, request.known));
  if (status == ExitStatus::not_applicable && !request.requirements.empty()) throw nothing_ran();
  return status;
}

}  // namespace lockstep
