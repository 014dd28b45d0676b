#pragma once

#include <cstddef>
#include <string>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// A scenario: where it comes from, its worlds, devices, axes, claims, and a table of its variants.
/// In lines of at most `width` columns.
std::string scenario_sheet(const Scenario& scenario, std::size_t width);

/// One variant: what it is, its axes, and what is claimed and expected of it.
std::string variant_sheet(const Scenario& scenario, const Variant& variant, std::size_t width);

}  // namespace lockstep
