#include "harness/judge/values/gradients_apart.h"

#include <algorithm>
#include <vector>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/divergence.h"
#include "harness/judge/values/held_tensors.h"

namespace lockstep {

/// Whether parameters differ before their step.
bool GradientsApart::differ_before(const StepView& step) const {
  const Claim start = agree_across_ranks(Kind::parameter, Phase::pre_forward);
  return std::ranges::any_of(held_tensors(step, start, unshared_), [](const HeldTensor& place) {
    return place.holders.size() > 1 && is_comparable(place) && groups_of(place).size() > 1;
  });
}

void GradientsApart::see(const StepView& step, const std::set<std::string>& differing) {
  if (is_over_) return;
  have_differed_ = have_differed_ || differ_before(step);
  is_over_ = !differing.empty();
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  const HeldTensors gradients = held_tensors(step, claim, unshared_);
  std::set<std::string> equal;
  std::vector<const HeldTensor*> compared;
  bool do_differ = false;
  for (const HeldTensor& place : gradients) {
    const ObservedTensor& any = *place.tensor;
    if (place.holders.size() < 2 || !is_comparable(place)) continue;
    compared.push_back(&place);
    const auto groups = groups_of(place);
    if (groups.size() > 1) {
      do_differ = true;
      rounding_.add(step, holders_of(place, groups));
    } else if (!is_undefined(any)) {
      equal.insert(any.name);
    }
  }
  if (do_differ) rounding_.end_step(step.number(), compared);
  have_differed_ = have_differed_ || do_differ;
  is_ruled_out_ = is_over_ && !have_differed_ &&
                  std::includes(equal.begin(), equal.end(), differing.begin(), differing.end());
}

}  // namespace lockstep
