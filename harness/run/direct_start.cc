#include "harness/run/direct_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/plan/select_cells.h"
#include "harness/record/folder_lock.h"
#include "harness/record/rank_exit.h"
#include "harness/record/run_folder.h"
#include "harness/run/one_rank.h"
#include "harness/run/run_cell.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

bool is_reference(const PlannedCell& planned) { return planned.cell.role == Role::reference; }

/// How to change a request that is not for exactly one cell; empty if it is.
std::string what_one_rank_takes(const RunRequest& request) {
  const std::vector<std::string>& names = request.selection.names;
  if (names.size() != 1 || names.front().find('/') == names.front().npos) {
    return "one SCENARIO/VARIANT";
  }
  if (request.selection.matrix) return "--set AXIS=VALUE instead of --matrix";
  if (request.selection.repetitions != 1) return "no --repeat";
  if (request.selection.world_sizes.size() > 1) return "no --ranks, or one";
  if (request.jobs.value_or(1) != 1) return "no --jobs";
  if (!request.formats.empty())
    return "no --format; afterwards, 'lockstep report DIR --format' writes reports";
  if (request.out.empty() && request.cell_folder.empty()) return "--out DIR";
  return {};
}

/// The requested cell first, then its reference.
Plan plan_of_one(RunRequest request, const std::vector<Scenario>& scenarios,
                 const ForeignPlacement& placement) {
  const char* const launcher = placement.variables->launcher;
  const std::string wanted = what_one_rank_takes(request);
  if (!wanted.empty())
    throw not_for_one_rank(launcher, placement.rank, placement.world_size, wanted);
  Selection& selection = request.selection;
  if (!request.has_ranks) selection.world_sizes = {placement.world_size};
  std::optional<Capability> gpus;
  if (needs_gpus(scenarios, selection)) {
    gpus = find_gpu_capability(kAnswerLimit);
    selection.gpus = gpus_for_plan(*gpus);
  }
  Plan plan = select_cells(scenarios, selection);
  const auto ranks = std::count_if(plan.cells.begin(), plan.cells.end(),
                                   [](const PlannedCell& cell) { return !is_reference(cell); });
  if (ranks != 1) {
    throw not_for_one_rank(launcher, placement.rank, placement.world_size,
                           "a variant that is not a reference");
  }
  check_requirements(request.requirements, gpus);
  return plan;
}

/// Peers may have started first, so the folder may hold only their files.
void require_unused(const fs::path& folder, const fs::path& cell_folder) {
  const fs::path top = folder / *fs::path(cell_folder).begin();
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path() != top) throw not_empty(folder.string());
  }
  if (fs::exists(world_file(folder / cell_folder), failure)) throw not_empty(folder.string());
}

/// In the process of rank 0.
ExitStatus run_and_judge(const RunRequest& request, const Plan& plan, OneRank& rank,
                         const ForeignPlacement& placement) {
  const fs::path folder = fs::absolute(request.out);
  RunRecord run = plan_record(request, plan, placement.variables->command);
  save_new_record(folder, run);
  const FolderLock lock(folder);
  const auto start = std::chrono::steady_clock::now();
  rank.run();
  CellRecord& cell = run.cells.front();
  cell.exits = rank.gather();
  cell.launcher = placement.variables->launcher;
  cell.processes = cell.cell.world_size;
  cell.duration_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  save_record(folder, run);
  complete_record(cell, folder / cell.folder);
  for (std::size_t i = 1; i < plan.cells.size(); ++i) {
    run.cells[i] = run_cell(plan.cells[i], folder, request.limit);
  }
  save_record(folder, run);  // before judging, which may fail
  judge_run(run, folder);
  save_record(folder, run);
  const ExitStatus status = exit_status(without_known(run, request.known));
  rank.conclude(status);
  write_standard_output(
      render_screen(run, screen_of(STDOUT_FILENO, request.verbosity, request.out)) +
      known_in_words(run, request.known));
  return status;
}

/// The result of rank 0's process, if it has judged already and its folder is visible here.
std::optional<ExitStatus> verdict_in(const fs::path& folder, const fs::path& cell_folder,
                                     const std::optional<KnownFindings>& known) {
  std::error_code failure;
  const bool is_judged = !fs::exists(world_file(folder / cell_folder), failure) &&
                         fs::exists(folder / "record.json", failure);
  if (!is_judged) return std::nullopt;
  return exit_status(without_known(load_record(folder), known));
}

/// In the process of another rank.
ExitStatus run_and_see_off(OneRank& rank, const fs::path& folder, const fs::path& cell_folder,
                           const std::optional<KnownFindings>& known) {
  const RankExit end = rank.run();
  if (const auto heard = rank.see_off()) return *heard;
  if (const auto judged = verdict_in(folder, cell_folder, known)) return *judged;
  return end.kind == ExitKind::finished ? ExitStatus::as_expected : ExitStatus::failed;
}

/// Only rank 0 records that the cell was not run.
ExitStatus decline(const RunRequest& request, const Plan& plan, const ForeignPlacement& placement) {
  const bool is_required = !request.requirements.empty();
  if (placement.rank != 0) return is_required ? ExitStatus::failed : ExitStatus::not_applicable;
  make_private_folder(request.out, request.readers);
  save_new_record(request.out, plan_record(request, plan, ""));
  write_standard_output(
      fmt::format("NOT RUN: {}\n", plan.cells.front().expectation.not_applicable));
  if (is_required) throw nothing_ran();
  return ExitStatus::not_applicable;
}

}  // namespace

ExitStatus direct_start(const RunRequest& request, const std::vector<Scenario>& scenarios,
                        const ForeignPlacement& placement) {
  const Plan plan = plan_of_one(request, scenarios, placement);
  const PlannedCell& planned = plan.cells.front();
  if (planned.cell.world_size != placement.world_size) {
    throw bad_value("--ranks", std::to_string(planned.cell.world_size),
                    fmt::format("{}, as {} started, or leave it out", placement.world_size,
                                placement.variables->launcher));
  }
  const fs::path cell_folder = folder_of(*planned.scenario, planned.cell);
  if (placement.rank == 0) require_unused(request.out, cell_folder);
  if (!planned.expectation.not_applicable.empty()) return decline(request, plan, placement);
  make_private_folder(request.out, request.readers);
  const fs::path folder = fs::absolute(request.out);  // a rank may change its directory
  OneRank rank(planned, folder / cell_folder, limit_of(planned, request.limit), placement);
  return placement.rank == 0 ? run_and_judge(request, plan, rank, placement)
                             : run_and_see_off(rank, folder, cell_folder, request.known);
}

ExitStatus be_rank_of_cell(const RunRequest& request, const std::vector<Scenario>& scenarios,
                           const ForeignPlacement& placement) {
  Plan plan = plan_of_one(request, scenarios, placement);
  PlannedCell& planned = plan.cells.front();
  planned.cell.repetition = request.cell_repetition;
  OneRank rank(planned, request.cell_folder, limit_of(planned, request.limit), placement);
  if (planned.cell.world_size != placement.world_size) {
    rank.refuse();
    throw launcher_world_differs(placement.variables->launcher, placement.world_size,
                                 planned.cell.world_size);
  }
  rank.run();
  if (placement.rank == 0) {
    rank.gather();
    rank.conclude(ExitStatus::as_expected);
  } else {
    rank.see_off();
  }
  return ExitStatus::as_expected;
}

}  // namespace lockstep
