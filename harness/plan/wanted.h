#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// A scenario with the variants of it that were asked for.
struct Wanted {
  const Scenario* scenario = nullptr;
  std::set<std::string> variants;
};

/// What `names` ("scenario", "scenario/variant", both perhaps with patterns as in `glob.h`; none:
/// all) ask for, in the order of the scenarios. Throws Error (usage) with the nearest name, and
/// where a pattern meets nothing.
std::vector<Wanted> wanted_of(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& names);

/// Throws Error (usage) where a value that was set means nothing to all variants that were asked
/// for.
void check_axes(const std::vector<Wanted>& all, const std::vector<AxisValue>& set);

/// The scenario called `id`. Throws Error (usage) with the nearest name.
const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id);

}  // namespace lockstep
