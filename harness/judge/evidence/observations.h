#pragma once

#include "harness/record/observation.h"
#include "reports/record/claim.h"

namespace lockstep {

/// Whether the claim is about observations like this one.
bool concerns(const Claim& claim, const Observation& observation);

/// Whether there is no tensor to speak of, rather than one that cannot be compared.
bool is_undefined(const Observation& observation);

/// Whether two observations are of the same bits, dtype and shape.
bool is_same_value(const Observation& a, const Observation& b);

}  // namespace lockstep
