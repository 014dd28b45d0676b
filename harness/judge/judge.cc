#include "harness/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <set>

#include "harness/judge/collectives/collectives.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/rank_exits.h"
#include "harness/judge/values/agreement.h"
#include "harness/judge/values/equality.h"
#include "harness/judge/values/memory_limit.h"

namespace lockstep {

namespace {

/// The first step in which nobody looked at what the claim is about; 0 when there is none.
std::int64_t first_unobserved_step(const CellEvidence& cell, const Claim& claim) {
  std::set<std::int64_t> observed;
  for (int rank = 0; rank < cell.evidence->processes(); ++rank) {
    for (const Observation& observation : cell.evidence->observations(rank)) {
      if (concerns(claim, observation)) observed.insert(observation.step);
    }
  }
  for (std::int64_t step = 1; step <= cell.steps; ++step) {
    if (!observed.contains(step)) return step;
  }
  return 0;
}

/// A healthy run of something else says nothing about the variant.
void require_trigger(const CellEvidence& cell, ClaimResult& result) {
  if (result.verdict != Verdict::holds || is_triggered(cell.exits)) return;
  result.verdict = Verdict::undecided;
  result.reason = "not triggered: no rank reached the place where the variant parts";
}

/// Journals that all lack a step agree with each other.
void require_all_steps(const CellEvidence& cell, ClaimResult& result) {
  if (result.verdict != Verdict::holds || !result.claim.kind) return;
  const std::int64_t missing = first_unobserved_step(cell, result.claim);
  if (missing == 0) return;
  result.verdict = Verdict::undecided;
  result.reason = fmt::format("nothing was observed in step {} of {}", missing, cell.steps);
}

/// Whether `rank` has no value of what the finding is about: it did not come there, or what it kept
/// is missing.
bool lacks_value(const Evidence& evidence, int rank, const Finding& finding) {
  const std::vector<Observation>& seen = evidence.observations(rank);
  return std::none_of(seen.begin(), seen.end(), [&](const Observation& one) {
    return one.step == finding.step && one.name == finding.tensor && concerns(finding.claim, one) &&
           (!one.not_comparable.empty() || evidence.kept(rank, one));
  });
}

/// Without the values of a perturbed reference the tolerance is too narrow to blame anybody by it.
void require_tolerance(const CellEvidence& cell, ClaimResult& result) {
  const bool needs_one = result.claim.predicate == Predicate::equal_reference &&
                         result.verdict == Verdict::violated && cell.reference;
  if (!needs_one) return;
  const Finding finding = result.findings.front();
  for (int rank = 1; rank < cell.reference->processes(); ++rank) {
    if (!lacks_value(*cell.reference, rank, finding)) continue;
    result.verdict = Verdict::undecided;
    result.findings.clear();
    result.reason = fmt::format(
        "perturbed reference {} has no value of {} in step {}, so that the tolerance is not known",
        rank, finding.tensor, finding.step);
    return;
  }
}

/// Bytes are held against the reference's and against nothing else: that they differ from it, or
/// between ranks, is no fault.
bool is_meaningless(const Claim& claim) {
  return (claim.kind == Kind::memory) != (claim.predicate == Predicate::at_most_reference);
}

/// Each judge fills verdict, reason, comparisons and findings of a result whose claim is set. One
/// that throws leaves the claim undecided.
ClaimResult judge_claim(const CellEvidence& cell, const CellFacts& facts, const Claim& claim) {
  ClaimResult result;
  result.claim = claim;
  if (is_meaningless(claim)) {
    result.reason = fmt::format(
        "'{}' means nothing: memory is claimed to stay within the "
        "reference's, and nothing else is",
        sentence(claim));
    return result;
  }
  try {
    switch (claim.predicate) {
      case Predicate::agree_across_ranks:
        judge_agreement(cell, result);
        break;
      case Predicate::equal_reference:
        judge_equality(cell, result);
        break;
      case Predicate::ranks_finish:
        judge_exits(cell, facts, result);
        break;
      case Predicate::at_most_reference:
        judge_memory_limit(cell, result);
        break;
      case Predicate::collectives_match:
        judge_collectives(facts, result);
        break;
    }
    require_tolerance(cell, result);
    require_all_steps(cell, result);
    require_trigger(cell, result);
  } catch (const std::bad_alloc&) {
    throw;  // says nothing of the claim, and the next one needs memory, too
  } catch (const std::exception& error) {
    result =
        ClaimResult{claim, Verdict::undecided, fmt::format("the judge failed: {}", error.what())};
  }
  return result;
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

bool is_triggered(const std::vector<RankExit>& exits) {
  return exits.empty() || std::any_of(exits.begin(), exits.end(),
                                      [](const RankExit& end) { return end.line.value_or(1) > 0; });
}

std::int64_t first_damage(const std::vector<ClaimResult>& results) {
  std::int64_t first = 0;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate == Predicate::at_most_reference ||
        result.claim.predicate == Predicate::collectives_match) {
      continue;
    }
    for (const Finding& finding : result.findings) {
      if (finding.failure) continue;
      if (first == 0 || finding.step < first) first = finding.step;
    }
  }
  return first;
}

std::vector<ClaimResult> judge(const CellEvidence& cell, const CellFacts& facts) {
  std::vector<ClaimResult> results;
  for (const Claim& claim : cell.claims) results.push_back(judge_claim(cell, facts, claim));
  tell_lag(results);
  return results;
}

}  // namespace lockstep
