#include "harness/judge/evidence/read_cell.h"

#include <fmt/format.h>

#include <utility>

#include "harness/record/journal.h"
#include "harness/record/process_identity.h"
#include "harness/record/stalled_calls.h"
#include "reports/base/usage_error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A finished rank had a journal; if it is missing, the run cannot be judged.
void require_journals(const fs::path& folder, const Execution& execution) {
  for (const RankExit& end : execution.exits) {
    const fs::path file = journal_file(folder, end.rank);
    const bool had_one = end.kind == ExitKind::finished || end.kind == ExitKind::raised;
    if (had_one && !has_journal(file)) {
      throw unreadable(file.string(),
                       "the journal of a rank that ended by itself is missing or empty",
                       "Copy the whole folder of the run");
    }
  }
}

/// On a full disk the last row is torn and was not counted.
void require_rows(const fs::path& folder, const Execution& execution, const StepReader& evidence) {
  for (const RankExit& end : execution.exits) {
    const auto found = evidence.rows(end.rank);
    if (!end.rows || *end.rows == found || *end.rows == evidence.rows_written(end.rank)) continue;
    if (evidence.misses_rows(end.rank) && found < *end.rows) continue;
    throw malformed(journal_file(folder, end.rank).string(), 0, 0,
                    fmt::format("the {} rows that the rank reported", *end.rows),
                    fmt::format("{}", found));
  }
}

template <class Whose>
Writers writers_named(const Whose& whose, int processes) {
  Writers writers;
  for (int process = 0; process < processes; ++process) {
    writers.identities.push_back(process_identity(whose, process));
  }
  return writers;
}

}  // namespace

Writers writers_of(const CellRecord& cell) { return writers_named(cell.cell, cell.processes); }

Writers writers_of(const JobRecord& job, const fs::path& run_folder) {
  Writers writers = writers_named(job, job.processes);
  writers.have_own_models = true;
  writers.may_be_silent = true;  // it may end before its first observation
  writers.may_go_on = !job.unsealed.empty();
  std::vector<fs::path> folders;
  for (const JobPart& part : job.parts) folders.push_back(run_folder / part.folder);
  if (folders.empty()) folders.push_back(run_folder / job.folder);
  // What ranks on other machines called is unknown.
  if (job.elsewhere.empty()) writers.calls = stalled_calls(folders);
  if (job.parts.empty()) return writers;
  for (int rank = 0; rank < job.processes; ++rank) {
    const JobPart* const part = part_with(job, rank);
    writers.folders.push_back(run_folder / (part ? part->folder : job.folder));
  }
  return writers;
}

std::unique_ptr<StepReader> open_execution(const fs::path& run_folder, const Execution& execution,
                                           Writers writers, const Reading& reading) {
  const fs::path folder = run_folder / execution.folder;
  if (!writers.may_be_silent) require_journals(folder, execution);
  auto evidence =
      std::make_unique<StepReader>(folder, execution.processes, std::move(writers), reading);
  require_rows(folder, execution, *evidence);
  return evidence;
}

}  // namespace lockstep
