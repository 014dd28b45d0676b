#pragma once

#include <string>

#include "reports/formats/screen.h"

namespace lockstep {

/// "lockstep 0.1.0, torch 2.11.0, gloo, cpu and sim, 2 ranks": what ran on what, in a line.
/// Whatever the record does not say is left out.
std::string configuration_in_words(const RunRecord& run);

/// A line per scenario: its cells, in how many of those that declare a bug it was found, the time
/// of its cells added up, then how many are not as expected. Of more than kMostScenarioLines
/// scenarios, those that are as expected are counted; a screen that shows more than the overview
/// has them all. Too narrow a screen has no times, then shorter names.
std::string scenario_table(const RunRecord& run, const Screen& screen);

inline constexpr std::size_t kMostScenarioLines = 44;

}  // namespace lockstep
