#pragma once

#include <filesystem>

#include "harness/judge/evidence/reading.h"
#include "reference/published_table.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Judges every cell of a run from the files in `folder`, compares the findings with the
/// expectations and fills the tables. A pure function of record and folder: it replaces the results
/// of an earlier judgement. With `believed` indices, it skips the rows of steps in which ranks
/// agree, except for a sample and steps with snapshots. An index that does not match its journal is
/// ignored and fails the cell.
void judge_run(RunRecord& run, const std::filesystem::path& folder, const Reading& reading = {});

/// Compares a published table with the run in `folder`. A value without a measurement does not
/// match.
TableComparison compare_with_run(const PublishedTable& table, const RunRecord& run,
                                 const std::filesystem::path& folder);

}  // namespace lockstep
