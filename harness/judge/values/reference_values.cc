#include "harness/judge/values/reference_values.h"

#include <fmt/format.h>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

std::string movement_in_words(std::int64_t step, const std::string& tensor, double moved) {
  return fmt::format(
      "the reference is not stable here: in step {} inputs that are off by their last bit move {} "
      "by {} of what training made of it",
      step, tensor, number(moved));
}

std::string instability_of(const ExpectedValues& values, std::int64_t step) {
  const std::int64_t unstable = values.first_unstable_step(step);
  if (unstable == 0) return "";
  const Stability& stability = values.stability(unstable);
  return movement_in_words(unstable, stability.worst, stability.moved);
}

}  // namespace

ReferenceValues::ReferenceValues(const CellEvidence& cell, const Claim& claim)
    : cell_(cell), claim_(claim), values_(*cell.reference, claim, cell.world_size) {}

std::string ReferenceValues::instability(std::int64_t step) const {
  std::string text = instability_of(values_, step);
  for (const ExpectedValues& other : others()) {
    if (text.empty()) text = instability_of(other, step);
  }
  return text;
}

std::string ReferenceValues::instability(const Observation& expected, double distance) const {
  const ExpectedTensor& tensor = values_.of(expected);
  const double negligible = kNegligible * values_.stability(expected.step).signal;
  const bool is_excused = !tensor.is_resolved && distance <= negligible;  // NaN is not
  if (!is_excused) return "";
  return movement_in_words(expected.step, expected.name, tensor.moved / tensor.signal);
}

const std::vector<ExpectedValues>& ReferenceValues::others() const {
  if (others_) return *others_;
  others_.emplace();
  for (const Claim& other : cell_.claims) {
    if (other.predicate != Predicate::equal_reference || other == claim_) continue;
    others_->emplace_back(*cell_.reference, other, cell_.world_size);
  }
  return *others_;
}

}  // namespace lockstep
