#include "harness/judge/evidence/observations.h"

namespace lockstep {

bool concerns(const Claim& claim, const Observation& observation) {
  return observation.kind == claim.kind && observation.phase == claim.phase;
}

bool is_undefined(const Observation& observation) {
  return observation.dtype.empty() && !observation.not_comparable.empty();
}

bool is_same_value(const Observation& a, const Observation& b) {
  return a.dtype == b.dtype && a.global_shape == b.global_shape &&
         a.not_comparable == b.not_comparable && a.digest == b.digest;
}

}  // namespace lockstep
