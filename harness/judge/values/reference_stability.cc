#include "harness/judge/values/reference_stability.h"

#include <fmt/format.h>

#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

std::string movement_in_words(std::int64_t step, const std::string& tensor, double moved) {
  return fmt::format(
      "the reference is not stable here: in step {}, changing the last bit of the inputs moves {} "
      "by {} of its signal",
      step, tensor, number(moved));
}

}  // namespace

ReferenceStability::ReferenceStability(const CellEvidence& cell, const ReferenceRun& run)
    : run_(run) {
  for (const Claim& claim : cell.claims) {
    if (claim.predicate == Predicate::equal_reference) searches_.push_back({claim});
  }
}

std::string ReferenceStability::instability(const Claim& claim, const ExpectedValues& values) {
  std::string text;
  for (Search& search : searches_) {
    if (search.claim == claim) text = instability(search, claim, values);
  }
  for (Search& search : searches_) {
    if (text.empty() && search.claim != claim) text = instability(search, claim, values);
  }
  return text;
}

std::string ReferenceStability::instability(Search& search, const Claim& claim,
                                            const ExpectedValues& values) const {
  search_until(search, values.step(), search.claim == claim ? &values : nullptr);
  if (search.step == 0 || search.step > values.step()) return "";
  return movement_in_words(search.step, search.stability.worst, search.stability.moved);
}

/// `known`: values of the last step, if already computed.
void ReferenceStability::search_until(Search& search, std::int64_t last,
                                      const ExpectedValues* known) const {
  const std::vector<std::int64_t>& steps = run_.steps().steps();
  for (; search.step == 0 && search.next < steps.size() && steps[search.next] <= last;
       ++search.next) {
    const std::int64_t step = steps[search.next];
    if (known && known->step() == step) {
      search.stability = known->stability();
    } else {
      const auto view = run_.steps().at(step);
      search.stability = ExpectedValues(run_, search.claim, *view).stability();
    }
    if (!search.stability.is_stable()) search.step = step;
  }
}

std::string instability_of(const ExpectedValues& values, const Observation& expected,
                           double distance) {
  const ExpectedTensor& tensor = values.of(expected);
  const double negligible = kNegligible * values.stability().signal;
  const bool is_excused = !tensor.is_resolved && distance <= negligible;  // false for NaN
  if (!is_excused) return "";
  return movement_in_words(expected.step, expected.name, tensor.moved / tensor.signal);
}

}  // namespace lockstep
