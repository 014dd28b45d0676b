#include "harness/cli/run_cell.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/cli/run_folder.h"
#include "harness/launch/launch.h"
#include "harness/record/rank_end.h"
#include "harness/train/rank.h"
#include "reports/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Adds to what the launcher saw what the rank said itself.
void add_statement(const fs::path& folder, RankEnd& end) {
  const RankStatement statement = read_rank_statement(rank_statement_file(folder, end.rank));
  end.step = statement.step;
  end.line = statement.line;
  end.step_s = statement.step_s;
  if (statement.is_own) {
    throw Error(Error::Kind::usage, fmt::format("rank {}: {}", end.rank, statement.error));
  }
  if (end.ending == Ending::exited && statement.raised) {
    end.ending = Ending::raised;
    end.error = statement.error;
  }
  // A rank that leaves its body by the back door has not finished, whatever its status says.
  if (end.ending == Ending::finished && !statement.ended) end.ending = Ending::exited;
}

/// A declared hang is not waited for longer than its variant says; other cells have their time.
std::chrono::milliseconds limit_of(const PlannedCell& planned, std::chrono::milliseconds limit) {
  const std::vector<Claim>& breaks = planned.expectation.breaks;
  const bool may_hang = std::find(breaks.begin(), breaks.end(), ranks_finish()) != breaks.end();
  return may_hang ? std::min(limit, planned.variant->limit.value_or(limit)) : limit;
}

}  // namespace

CellRecord describe(const PlannedCell& planned) {
  CellRecord record;
  record.cell = planned.cell;
  record.folder = folder_of(*planned.scenario, planned.cell);
  record.source = planned.scenario->source;
  record.reproduce = reproducing_command(planned);
  record.claims = planned.claims;
  record.expectation = planned.expectation;
  const auto reference = reference_cell(*planned.scenario, *planned.variant, planned.cell);
  if (reference) record.reference_folder = folder_of(*planned.scenario, *reference);
  return record;
}

CellRecord run_cell(const PlannedCell& planned, const fs::path& run_folder,
                    std::chrono::milliseconds limit) {
  CellRecord record = describe(planned);
  if (!record.expectation.not_applicable.empty()) return record;
  const fs::path folder = run_folder / record.folder;
  make_folders(folder);

  LaunchOptions options;
  options.ranks =
      record.cell.role == Role::reference ? 1 + kPerturbedReferences : record.cell.world_size;
  options.limit = limit_of(planned, limit);
  options.folder = folder;
  // Longer than the cell may take: a hang is told by the supervisor, who knows which rank it is.
  const GroupOptions group{record.cell.backend, 2 * options.limit, record.cell.device};
  const auto start = std::chrono::steady_clock::now();
  record.ends = launch_ranks(options, [&](const Seat& seat) {
    return run_rank(planned.scenario->body, record.cell, seat, folder, group);
  });
  record.duration_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  record.processes = options.ranks;

  for (RankEnd& end : record.ends) add_statement(folder, end);
  const auto parted = std::find_if(record.ends.begin(), record.ends.end(),
                                   [](const RankEnd& end) { return end.line.value_or(0) > 0; });
  if (parted != record.ends.end()) record.source += fmt::format(":{}", *parted->line);
  return record;
}

}  // namespace lockstep
