#pragma once

#include <filesystem>

#include "reference/published_table.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Judges every cell of a run from the files in `folder`, holds the findings against the
/// expectations and fills the tables. A pure function of record and folder: what an earlier
/// judgement left in the record is replaced.
void judge_run(RunRecord& run, const std::filesystem::path& folder);

/// Holds a published table against the run in `folder`. A value that the run has no measurement of
/// is not met.
TableComparison compare_with_run(const PublishedTable& table, const RunRecord& run,
                                 const std::filesystem::path& folder);

}  // namespace lockstep
