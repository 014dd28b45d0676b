#include "harness/cli/direct_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "harness/cli/judge_run.h"
#include "harness/cli/one_rank.h"
#include "harness/cli/run_cell.h"
#include "harness/cli/run_folder.h"
#include "harness/record/rank_exit.h"
#include "reports/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

bool is_reference(const PlannedCell& planned) { return planned.cell.role == Role::reference; }

/// Why the request is not for exactly one cell: what to give instead; empty when it is.
std::string what_one_rank_takes(const RunRequest& request) {
  const std::vector<std::string>& names = request.selection.names;
  if (names.size() != 1 || names.front().find('/') == names.front().npos) {
    return "one SCENARIO/VARIANT";
  }
  if (request.selection.matrix) return "--set AXIS=VALUE instead of --matrix";
  if (request.selection.repetitions != 1) return "no --repeat";
  if (request.selection.world_sizes.size() > 1) return "no --ranks, or one";
  if (!request.formats.empty()) return "no --format: 'lockstep report DIR --format' comes later";
  if (request.out.empty() && request.cell_folder.empty()) return "--out DIR";
  return {};
}

/// The cell that was asked for first, its reference behind it.
Plan plan_of_one(RunRequest request, const std::vector<Scenario>& scenarios,
                 const ForeignSeat& seat) {
  const char* const launcher = seat.variables->launcher;
  const std::string wanted = what_one_rank_takes(request);
  if (!wanted.empty()) throw not_for_one_rank(launcher, seat.rank, seat.world_size, wanted);
  Selection& selection = request.selection;
  if (!request.has_ranks) selection.world_sizes = {seat.world_size};
  if (needs_gpus(scenarios, selection)) selection.gpus = find_gpu_capability(kAnswerLimit);
  Plan plan = select_cells(scenarios, selection);
  const auto ranks = std::count_if(plan.cells.begin(), plan.cells.end(),
                                   [](const PlannedCell& cell) { return !is_reference(cell); });
  if (ranks != 1) {
    throw not_for_one_rank(launcher, seat.rank, seat.world_size,
                           "a variant that is no reference: one process computes that");
  }
  check_requirements(request.requirements, selection.gpus);
  return plan;
}

/// Where peers may have come first, the folder holds theirs and nothing else.
void require_unused(const fs::path& folder, const fs::path& cell_folder) {
  const fs::path top = folder / *fs::path(cell_folder).begin();
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path() != top) throw not_empty(folder.string());
  }
  if (fs::exists(world_file(folder / cell_folder), failure)) throw not_empty(folder.string());
}

void run_and_record(const RunRequest& request, const Plan& plan, OneRank& rank,
                    const ForeignSeat& seat) {
  const std::string utc = utc_now();
  RunRecord run = begin_record(request, utc);
  run.tables = tables_of(plan.cells);
  run.notes = plan.notes;
  for (const PlannedCell& planned : plan.cells) {
    run.cells.push_back(describe(planned, seat.variables->command));
  }
  save_record(request.out, run);
  const auto start = std::chrono::steady_clock::now();
  rank.run();
  CellRecord& cell = run.cells.front();
  cell.ends = rank.gather();
  cell.launcher = seat.variables->launcher;
  cell.processes = cell.cell.world_size;
  cell.duration_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  save_record(request.out, run);
  add_statements(cell, fs::path(request.out) / cell.folder);
  for (std::size_t i = 1; i < plan.cells.size(); ++i) {
    run.cells[i] = run_cell(plan.cells[i], request.out, request.limit);
  }
  save_record(request.out, run);
  show(fmt::format("Files: {0}\nThey are judged by: lockstep report {0}\n", request.out));
}

/// Rank 0 alone records that the cell was not run.
ExitStatus decline(const RunRequest& request, const Plan& plan, const ForeignSeat& seat) {
  if (seat.rank != 0) return ExitStatus::not_applicable;
  make_folders(request.out);
  RunRecord run = begin_record(request, utc_now());
  for (const PlannedCell& planned : plan.cells) run.cells.push_back(describe(planned));
  save_record(request.out, run);
  show(fmt::format("Not applicable: {}\n", plan.cells.front().expectation.not_applicable));
  return ExitStatus::not_applicable;
}

}  // namespace

ExitStatus direct_start(const RunRequest& request, const std::vector<Scenario>& scenarios,
                        const ForeignSeat& seat) {
  const Plan plan = plan_of_one(request, scenarios, seat);
  const PlannedCell& planned = plan.cells.front();
  if (planned.cell.world_size != seat.world_size) {
    throw bad_value("--ranks", std::to_string(planned.cell.world_size),
                    fmt::format("{}, as {} started, or leave it out", seat.world_size,
                                seat.variables->launcher));
  }
  const fs::path cell_folder = folder_of(*planned.scenario, planned.cell);
  if (seat.rank == 0) require_unused(request.out, cell_folder);
  if (!planned.expectation.not_applicable.empty()) return decline(request, plan, seat);
  OneRank rank(planned, fs::path(request.out) / cell_folder, limit_of(planned, request.limit),
               seat);
  if (seat.rank == 0) {
    run_and_record(request, plan, rank, seat);
  } else {
    rank.run();
    rank.see_off();
  }
  return ExitStatus::as_expected;
}

ExitStatus be_rank_of_cell(const RunRequest& request, const std::vector<Scenario>& scenarios,
                           const ForeignSeat& seat) {
  const Plan plan = plan_of_one(request, scenarios, seat);
  const PlannedCell& planned = plan.cells.front();
  OneRank rank(planned, request.cell_folder, limit_of(planned, request.limit), seat);
  if (planned.cell.world_size != seat.world_size) {
    rank.refuse();
    throw launcher_world_differs(seat.variables->launcher, seat.world_size,
                                 planned.cell.world_size);
  }
  rank.run();
  if (seat.rank == 0) {
    rank.gather();
  } else {
    rank.see_off();
  }
  return ExitStatus::as_expected;
}

}  // namespace lockstep
