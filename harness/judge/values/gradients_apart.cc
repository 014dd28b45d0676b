#include "harness/judge/values/gradients_apart.h"

#include <algorithm>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/held_tensors.h"

namespace lockstep {

void GradientsApart::see(const StepView& step, const std::set<std::string>& differing) {
  if (is_decided_) return;
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  std::set<std::string> equal;
  for (const HeldTensor& place : held_tensors(step, claim, unshared_)) {
    const Observation& any = *place.holders.begin()->second;
    if (place.holders.size() < 2 || !is_comparable(place)) continue;
    if (groups_of(place).size() > 1) {
      is_decided_ = true;
      return;
    }
    if (!is_undefined(any)) equal.insert(any.name);
  }
  if (differing.empty()) return;
  is_decided_ = true;
  is_ruled_out_ = std::includes(equal.begin(), equal.end(), differing.begin(), differing.end());
}

}  // namespace lockstep
