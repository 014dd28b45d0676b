#include "harness/judge/evidence/read_cell.h"

#include <fmt/format.h>

#include "harness/record/journal.h"
#include "harness/record/process_identity.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A rank that came to its end had a journal; where it is gone, nothing can be judged.
void require_journals(const fs::path& folder, const CellRecord& cell) {
  for (const RankExit& end : cell.exits) {
    const fs::path file = journal_file(folder, end.rank);
    const bool had_one = end.kind == ExitKind::finished || end.kind == ExitKind::raised;
    if (had_one && !has_journal(file)) {
      throw unreadable(file.string(),
                       "the journal of a rank that ended by itself is missing or empty");
    }
  }
}

/// The last row of a full disk is torn, and was not counted.
void require_rows(const fs::path& folder, const CellRecord& cell, const StepReader& evidence) {
  for (const RankExit& end : cell.exits) {
    const auto found = evidence.rows(end.rank);
    if (!end.rows || *end.rows == found || *end.rows == evidence.rows_written(end.rank)) continue;
    throw malformed(journal_file(folder, end.rank).string(), 0, 0,
                    fmt::format("the {} rows that the rank said it wrote", *end.rows),
                    fmt::format("{}", found));
  }
}

std::vector<std::string> identities_of(const CellRecord& cell) {
  std::vector<std::string> identities;
  for (int process = 0; process < cell.processes; ++process) {
    identities.push_back(process_identity(cell.cell, process));
  }
  return identities;
}

}  // namespace

std::unique_ptr<StepReader> open_cell(const fs::path& run_folder, const CellRecord& cell,
                                      bool is_signed, const Reading& reading) {
  const fs::path folder = run_folder / cell.folder;
  require_journals(folder, cell);
  auto evidence = std::make_unique<StepReader>(folder, cell.processes,
                                               Writers{identities_of(cell), is_signed}, reading);
  require_rows(folder, cell, *evidence);
  return evidence;
}

}  // namespace lockstep
