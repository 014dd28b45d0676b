#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/formats/columns.h"
#include "reports/formats/sections.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// "Everything is as expected: 4 cells, 4 as expected."
std::string verdict_sentence(const RunRecord& run);

/// Whether a run is comparisons alone.
bool is_comparison(const RunRecord& run);

/// Whether a report has a detection table: a report of jobs only has none.
bool has_detections(const RunRecord& run);

/// The detection table: one row per scenario below the headings. All columns count cells. `found`
/// counts those with a fully found bug, of those that ran and declare one.
std::vector<Column> detection_columns(const RunRecord& run);

inline constexpr std::string_view kTitleOfCost = "Cost of a step, on one rank";

/// The table below that title, of the buggy, fixed and latent cells of a section. Empty if no
/// fixed cell was measured, because there is nothing to compare with.
std::string cost_text(const Section& section);

}  // namespace lockstep
