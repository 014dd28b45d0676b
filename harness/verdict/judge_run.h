#pragma once

#include <filesystem>

#include "harness/judge/evidence/reading.h"
#include "reference/published_table.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Judges every cell of a run from the files in `folder`, holds the findings against the
/// expectations and fills the tables. A pure function of record and folder: what an earlier
/// judgement left in the record is replaced. With `believed` indices, rows are not read of steps in
/// which ranks agree by them, except for a sample and those with snapshots; an index that does not
/// fit its journal is ignored, and fails the cell.
void judge_run(RunRecord& run, const std::filesystem::path& folder, const Reading& reading = {});

/// Holds a published table against the run in `folder`. A value that the run has no measurement of
/// is not met.
TableComparison compare_with_run(const PublishedTable& table, const RunRecord& run,
                                 const std::filesystem::path& folder);

}  // namespace lockstep
