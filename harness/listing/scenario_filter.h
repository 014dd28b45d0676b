#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// Scenarios of a program, in the order of its registry, which outlives them.
using ScenarioList = std::vector<const Scenario*>;

/// The scenarios selected by any of `words`; no words select all. A word is a pattern (`glob.h`) of
/// an id or a class, else a class, else a part of an id or of a summary, in any case. Throws Error
/// (usage) with the nearest id or class if a word selects nothing.
ScenarioList filter_scenarios(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& words);

}  // namespace lockstep
