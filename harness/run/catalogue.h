#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// The scenarios as text: one paragraph each.
std::string list_as_text(const std::vector<Scenario>& scenarios);

/// The README's table of scenarios.
std::string list_as_markdown(const std::vector<Scenario>& scenarios);

/// The full description of one scenario.
std::string scenario_sheet(const Scenario& scenario);

}  // namespace lockstep
