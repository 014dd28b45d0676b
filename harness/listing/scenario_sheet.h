#pragma once

#include <cstddef>
#include <string>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// A scenario: its origin, worlds, devices, axes, claims, and a table of its variants. In lines of
/// at most `width` columns.
std::string scenario_sheet(const Scenario& scenario, std::size_t width);

/// One variant: its summary, axes, claims and expectation.
std::string variant_sheet(const Scenario& scenario, const Variant& variant, std::size_t width);

}  // namespace lockstep
