#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

/// The class of the fault: the folder of the scenario's file ("sharding").
std::string class_of(const Scenario& scenario);

/// "2-16", or "2,4,8" if sizes in between are not supported.
std::string worlds_in_short(const Scenario& scenario);

/// The axes that `variant` depends on, in short: "all", "none", "tiles, rate" or "all but rate".
std::string axes_in_short(const Scenario& scenario, const Variant& variant);

/// The expectation of `variant` in the smallest world, with every axis at its default.
Expectation default_expectation(const Scenario& scenario, const Variant& variant);

}  // namespace lockstep
