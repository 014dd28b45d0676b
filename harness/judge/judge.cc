#include "harness/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

std::int64_t last_observed_step(const Evidence& evidence, const Claim& claim) {
  std::int64_t last = 0;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    for (const Observation& observation : evidence.observations(rank)) {
      if (concerns(claim, observation)) last = std::max(last, observation.step);
    }
  }
  return last;
}

/// Journals that all end too early agree with each other.
void require_all_steps(const Case& the_case, ClaimResult& result) {
  if (result.verdict != Verdict::holds || !result.claim.kind) return;
  const std::int64_t last = last_observed_step(*the_case.evidence, result.claim);
  if (last >= the_case.steps) return;
  result.verdict = Verdict::undecided;
  result.reason = fmt::format("observed until step {} of {} only", last, the_case.steps);
}

ClaimResult judge_claim(const Case& the_case, const Claim& claim) {
  ClaimResult result;
  result.claim = claim;
  try {
    switch (claim.predicate) {
      case Predicate::agree_across_ranks:
        judge_agreement(the_case, result);
        break;
      case Predicate::equal_reference:
        judge_equality(the_case, result);
        break;
      case Predicate::ranks_finish:
        judge_endings(the_case, result);
        break;
    }
    require_all_steps(the_case, result);
  } catch (const std::exception& error) {
    result =
        ClaimResult{claim, Verdict::undecided, fmt::format("the judge failed: {}", error.what())};
  }
  return result;
}

/// The first step in which values are wrong; 0 when none is.
std::int64_t first_damage(const std::vector<ClaimResult>& results) {
  std::int64_t first = 0;
  for (const ClaimResult& result : results) {
    for (const Finding& finding : result.findings) {
      if (finding.failure) continue;
      if (first == 0 || finding.step < first) first = finding.step;
    }
  }
  return first;
}

/// An error that comes after the damage says so: the reader looks for the fault in the wrong step
/// otherwise.
void tell_lag(std::vector<ClaimResult>& results) {
  const std::int64_t damage = first_damage(results);
  if (damage == 0) return;
  for (ClaimResult& result : results) {
    for (Finding& finding : result.findings) {
      if (!finding.failure || finding.step < damage) continue;
      finding.failure->lag = finding.step - damage;
      if (finding.step == damage) continue;
      finding.sentence +=
          fmt::format(" The damage was done {} step{} earlier, in step {}.", finding.step - damage,
                      finding.step - damage == 1 ? "" : "s", damage);
    }
  }
}

}  // namespace

bool concerns(const Claim& claim, const Observation& observation) {
  return observation.kind == claim.kind && observation.point == claim.point;
}

std::vector<ClaimResult> judge(const Case& the_case) {
  std::vector<ClaimResult> results;
  for (const Claim& claim : the_case.claims) results.push_back(judge_claim(the_case, claim));
  tell_lag(results);
  return results;
}

}  // namespace lockstep
