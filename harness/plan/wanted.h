#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// A scenario and its selected variants.
struct Wanted {
  const Scenario* scenario = nullptr;
  std::set<std::string> variants;
};

/// The selection of `names`, in the order of the scenarios. A name is "scenario" or
/// "scenario/variant", each part optionally a pattern as in `glob.h`; no names select all. Throws
/// Error (usage) with the nearest name, or if a pattern matches nothing.
std::vector<Wanted> wanted_of(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& names);

/// Throws Error (usage) if a given value means nothing to any selected variant.
void check_axes(const std::vector<Wanted>& all, const std::vector<AxisValue>& set);

/// The scenario called `id`. Throws Error (usage) with the nearest name.
const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id);

}  // namespace lockstep
