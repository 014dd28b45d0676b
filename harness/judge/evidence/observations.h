#pragma once

#include "harness/record/observation.h"
#include "reports/record/claim.h"

namespace lockstep {

/// Whether the claim is about observations of this tensor.
bool concerns(const Claim& claim, const ObservedTensor& tensor);

/// Whether the claim is about values before the first step, which are observed once.
bool is_about_the_start(const Claim& claim);

/// Whether the tensor is undefined, in contrast to one that cannot be compared.
bool is_undefined(const ObservedTensor& tensor);

/// Whether two observations have the same bits, dtype and shape.
bool is_same_value(const Observation& a, const Observation& b);

}  // namespace lockstep
