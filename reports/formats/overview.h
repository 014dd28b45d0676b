#pragma once

#include <string>
#include <vector>

#include "reports/formats/columns.h"
#include "reports/formats/sections.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// "Everything is as expected: 4 cells, 4 as expected."
std::string verdict_sentence(const RunRecord& run);

/// Whether a report has a detection table: one of jobs alone has not.
bool has_detections(const RunRecord& run);

/// The detection table: one row per scenario below the headings. All columns count cells; `found`:
/// of those that were run and declare a bug, those in which all of it was found.
std::vector<Column> detection_columns(const RunRecord& run);

/// What a step costs a rank, of the buggy, fixed and latent cells of a section; empty when no fixed
/// one was measured: there is nothing then to compare the others with.
std::string cost_text(const Section& section);

}  // namespace lockstep
