#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// A violation must exceed its tolerance by this factor; between the two the claim is undecided.
inline constexpr double kClearFactor = 10;

/// Where all was compared: what is violated needs no reason, what could not be compared leaves open
/// a claim that nothing violates, and `too_close` is the reason where a difference does.
void settle(ClaimResult& result, const std::string& too_close);

}  // namespace lockstep
