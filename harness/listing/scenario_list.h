#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "harness/listing/scenario_filter.h"

namespace lockstep {

/// A line per scenario below a heading: id, class, world sizes, devices, fault. Lines are cut to
/// `width`. If the last column has little room, middle columns are omitted; if that is not enough,
/// it goes below the id. Absent: every column, uncut.
std::string list_as_table(const ScenarioList& scenarios, std::optional<std::size_t> width);

/// "28 scenarios of 7 classes: hooks, sharding, ...", for readers; `width` as above.
std::string list_summary(const ScenarioList& scenarios, std::size_t width);

/// A paragraph per scenario, with its variants, in lines of `width`.
std::string list_with_variants(const ScenarioList& scenarios, std::size_t width);

}  // namespace lockstep
