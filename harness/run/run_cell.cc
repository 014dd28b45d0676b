#include "harness/run/run_cell.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/comm/store_service.h"
#include "harness/launch/interruption.h"
#include "harness/plan/reproduce.h"
#include "harness/plan/select_cells.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"
#include "harness/record/run_folder.h"
#include "harness/record/texts_of_ranks.h"
#include "harness/run/launch_by.h"
#include "harness/run/rank_progress.h"
#include "harness/train/rank/rank.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kFirstStepOnGpu{20'000};

/// Adds the rank's own status to the launcher's observations.
void add_status(const fs::path& folder, const Cell& cell, RankExit& end) {
  const fs::path file = rank_status_file(folder, end.rank);
  const RankStatus status = read_rank_status(file);
  if (fs::exists(file)) require_process(file, process_identity(cell, end.rank), status.process);
  end.step = status.step;
  end.line = status.line;
  end.step_s = status.step_s;
  end.step_began_ns = status.step_began_ns;
  end.rendezvous = status.rendezvous;
  end.rows = status.rows;
  if (status.is_own) {
    throw Error(Error::Kind::usage, fmt::format("rank {}: {}", end.rank, status.error));
  }
  const bool may_have_raised = end.kind == ExitKind::exited || end.kind == ExitKind::unfinished;
  if (may_have_raised && status.raised) {
    end.kind = ExitKind::raised;
    end.cause = status.cause;
    end.error = status.error;
  }
  // A rank that bypasses the end of its body has not finished, whatever its exit status.
  if (end.kind == ExitKind::finished && !status.ended) end.kind = ExitKind::exited;
}

/// Whether ranks of the cell are expected not to finish.
bool may_hang(const PlannedCell& planned) {
  const std::vector<Claim>& breaks = planned.expectation.breaks;
  return std::find(breaks.begin(), breaks.end(), ranks_finish()) != breaks.end();
}

/// The record of a cell that has not been run.
CellRecord record_of(const PlannedCell& planned, const std::string& launcher) {
  CellRecord record;
  record.cell = planned.cell;
  record.folder = folder_of(*planned.scenario, planned.cell);
  record.source = planned.scenario->source;
  const bool is_forked = launcher.empty() || planned.cell.role == Role::reference;
  record.reproduce = reproducing_command(planned, is_forked ? std::string() : launcher);
  record.claims = planned.claims;
  record.expectation = planned.expectation;
  const auto reference = reference_cell(*planned.scenario, *planned.variant, planned.cell);
  if (reference) record.reference_folder = folder_of(*planned.scenario, *reference);
  return record;
}

std::vector<RankExit> fork_ranks(const PlannedCell& planned, const fs::path& folder, int ranks,
                                 std::chrono::milliseconds limit) {
  RankProgress progress(folder, ranks);
  LaunchOptions options;
  options.ranks = ranks;
  options.limit = limit;
  if (may_hang(planned)) options.silence = limit_of(planned, limit);
  options.progress = [&] { return progress.reached(); };
  options.folder = folder;
  options.host = serve_store;
  return launch_ranks(options, body_of(planned, folder, limit));
}

}  // namespace

std::chrono::milliseconds limit_of(const PlannedCell& planned, std::chrono::milliseconds limit) {
  if (!may_hang(planned)) return limit;
  const std::chrono::milliseconds own = planned.variant->limit.value_or(limit);
  // The first step on a GPU loads kernels.
  const bool is_slow = planned.cell.device == DeviceKind::cuda;
  return std::min(limit, is_slow ? std::max(own, kFirstStepOnGpu) : own);
}

std::function<int(const RankPlacement&)> body_of(const PlannedCell& planned, const fs::path& folder,
                                                 std::chrono::milliseconds limit) {
  // Longer than the cell's limit, because the supervisor reports a hang and names the rank.
  GroupOptions group{planned.cell.backend, 2 * limit, planned.cell.device};
  group.records = planned.cell.collectives != Collectives::off;
  if (planned.cell.collectives == Collectives::check) group.peer_logs = folder;
  return [&planned, folder, group](const RankPlacement& placement) {
    return run_rank(planned.scenario->body, planned.cell, placement, folder, group);
  };
}

void complete_record(CellRecord& record, const fs::path& folder) {
  for (RankExit& end : record.exits) add_status(folder, record.cell, end);
  const auto parted = std::find_if(record.exits.begin(), record.exits.end(),
                                   [](const RankExit& end) { return end.line.value_or(0) > 0; });
  if (parted != record.exits.end()) record.source += fmt::format(":{}", *parted->line);
  mask_texts_of_ranks(folder);
  record.manifest = write_manifest(folder, record.processes, execution_identity(record.cell));
}

void plan_cells(RunRecord& run, const std::vector<PlannedCell>& cells,
                const std::string& launcher) {
  for (const PlannedCell& planned : cells) run.cells.push_back(record_of(planned, launcher));
  run.planned = counts_of(run);
}

CellRecord run_cell(const PlannedCell& planned, const fs::path& run_folder,
                    std::chrono::milliseconds limit, const LauncherCommand* launcher) {
  CellRecord record = record_of(planned, launcher ? launcher->text() : "");
  if (!record.expectation.not_applicable.empty()) return record;
  const fs::path folder = run_folder / record.folder;
  make_folders(folder);

  const bool is_reference = record.cell.role == Role::reference;
  const int processes = is_reference ? 1 + kPerturbedReferences : record.cell.world_size;
  const auto start = std::chrono::steady_clock::now();
  if (launcher && !is_reference) {
    record.exits = launch_by(*launcher, planned, folder, limit_of(planned, limit));
    record.launcher = fmt::format("{}", fmt::join(launcher->words_for(processes), " "));
  } else {
    record.exits = fork_ranks(planned, folder, processes, limit);
  }
  if (Interruption::noted() != 0) return record_of(planned, launcher ? launcher->text() : "");
  record.duration_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.processes = processes;
  complete_record(record, folder);
  return record;
}

}  // namespace lockstep
