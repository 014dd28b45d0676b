#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// A violation must exceed its tolerance by this factor; in between, the claim is undecided.
inline constexpr double kClearFactor = 10;

/// Sets the reason after all comparisons. A violated claim needs none. If no comparison violates
/// the claim, an impossible comparison leaves it undecided. `too_close` is the reason if a
/// difference does.
void settle(ClaimResult& result, const std::string& too_close);

}  // namespace lockstep
