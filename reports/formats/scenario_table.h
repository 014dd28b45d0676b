#pragma once

#include <string>

#include "reports/formats/screen.h"

namespace lockstep {

/// "lockstep 0.1.0, torch 2.11.0, gloo, cpu and sim, 2 ranks": the configuration of a run on one
/// line. Omits everything that is not in the record.
std::string configuration_in_words(const RunRecord& run);

/// A line per scenario: its cells, the number of cells in which a declared bug was found, the total
/// time of its cells, and the number of unexpected cells. Beyond kMostScenarioLines scenarios,
/// those that are as expected are only counted, unless the screen shows more than the overview.
/// Narrow screens omit times first, then shorten names.
std::string scenario_table(const RunRecord& run, const Screen& screen);

inline constexpr std::size_t kMostScenarioLines = 44;

}  // namespace lockstep
