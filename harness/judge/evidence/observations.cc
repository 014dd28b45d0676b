#include "harness/judge/evidence/observations.h"

namespace lockstep {

bool concerns(const Claim& claim, const ObservedTensor& tensor) {
  return tensor.kind == claim.kind && tensor.phase == claim.phase;
}

bool is_about_the_start(const Claim& claim) {
  return claim.predicate != Predicate::agree_periodically && claim.kind == Kind::parameter &&
         claim.phase == Phase::pre_forward;
}

bool is_undefined(const ObservedTensor& tensor) {
  return tensor.dtype.empty() && !tensor.not_comparable.empty();
}

bool is_same_value(const Observation& a, const Observation& b) {
  return a.dtype == b.dtype && a.global_shape == b.global_shape &&
         a.not_comparable == b.not_comparable && a.digest == b.digest;
}

}  // namespace lockstep
