#pragma once

#include <string>

#include "reports/record/execution.h"

namespace lockstep {

/// The calls of collectives as one lane per rank, ranks that called the same together, with the
/// first mismatch marked. Empty if no calls are known.
std::string html_lanes(const Execution& execution);

}  // namespace lockstep
