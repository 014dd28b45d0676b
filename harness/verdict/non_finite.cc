#include "harness/verdict/non_finite.h"

#include <fmt/format.h>

#include "harness/judge/values/finiteness.h"
#include "harness/judge/wrong_values.h"

namespace lockstep {

std::string first_non_finite_in_words(const StepReader& evidence,
                                      const std::vector<ClaimResult>& results) {
  const auto step = evidence.first_non_finite_step();
  if (!step || first_finding(results, Predicate::stay_finite)) return "";
  const auto birth = birth_in(evidence, *step);
  return birth ? fmt::format("not finite, first in step {}: {}", *step,
                             birth_in_words(*birth, evidence.processes()))
               : "";
}

}  // namespace lockstep
