#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "harness/listing/scenario_filter.h"

namespace lockstep {

/// A line a scenario below a heading: id, class, world sizes, devices, what goes wrong. Lines are
/// cut to `width`; where it leaves the sentence little room, columns in between are left out, and
/// where even then there is none, the sentence stands below the id. Absent: every column, whole.
std::string list_as_table(const ScenarioList& scenarios, std::optional<std::size_t> width);

/// "28 scenarios of 7 classes: hooks, sharding, ...", for a reader; `width` as above.
std::string list_summary(const ScenarioList& scenarios, std::size_t width);

/// A paragraph a scenario, with its variants, in lines of `width`.
std::string list_with_variants(const ScenarioList& scenarios, std::size_t width);

}  // namespace lockstep
