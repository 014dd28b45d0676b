#include "harness/judge/wrong_values.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/shards.h"

namespace lockstep {

namespace {

/// Observations of one tensor in one step, by rank.
using Holders = std::map<int, const Observation*>;

std::map<TensorKey, Holders> holders_of(const StepView& step, const Claim& claim) {
  std::map<TensorKey, Holders> holders;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& observation : step.observations(rank)) {
      if (concerns(claim, observation)) holders[key_of(observation)][rank] = &observation;
    }
  }
  return holders;
}

enum class Sameness { same, different, unknown };

/// Whether two ranks hold the same bits; unknown if one holds a shard.
Sameness sameness_of(const Observation& a, const Observation& b) {
  if (is_shard(a) || is_shard(b)) return Sameness::unknown;
  if (!is_same_value(a, b)) return Sameness::different;
  return a.not_comparable.empty() || is_undefined(a) ? Sameness::same : Sameness::unknown;
}

void note_parting(std::optional<ValuePlace>& parting, const ValuePlace& place) {
  if (!parting || place < *parting) parting = place;
}

/// Position of a gradient in a step.
using GradientKey = std::tuple<Phase, std::int64_t, std::string>;

GradientKey gradient_key(const Observation& o) { return {o.phase, o.micro_batch, o.name}; }

bool is_unequal_to_reference(const ClaimResult& result) {
  return result.claim.predicate == Predicate::equal_reference &&
         result.verdict == Verdict::violated;
}

}  // namespace

WrongValuesFold::WrongValuesFold(const CellEvidence& cell)
    : cell_(cell), standings_(cell.claims.size()) {}

void WrongValuesFold::see(const CellStep& step) {
  if (step.reference) see_gradients(step);
  for (std::size_t i = 0; i < cell_.claims.size(); ++i) {
    const Claim& claim = cell_.claims[i];
    if (claim.predicate == Predicate::equal_reference) see_claim(step.actual, claim, standings_[i]);
  }
}

void WrongValuesFold::see_claim(const StepView& step, const Claim& claim, Standing& standing) {
  for (const auto& [key, holders] : holders_of(step, claim)) {
    if (static_cast<int>(holders.size()) != step.processes()) standing.is_known = false;
    const Observation& first = *holders.begin()->second;
    for (const auto& [rank, observation] : holders) {
      const Sameness sameness = sameness_of(first, *observation);
      if (sameness == Sameness::unknown) standing.is_known = false;
      if (sameness == Sameness::different) note_parting(standing.parting, place_of(first));
    }
  }
}

void WrongValuesFold::SeenGradient::see(const Observation& observation, bool is_value_there) {
  if (!is_there) is_shard = lockstep::is_shard(observation);
  is_there = true;
  if (!is_undefined(observation)) has_value = true;
  if (is_value_there) is_expected = true;
}

void WrongValuesFold::see_gradients(const CellStep& step) {
  std::set<GradientKey> values;
  for (const Observation& observation : step.reference->observations(0)) {
    const bool is_of_all = observation.replica_group.empty();
    if (observation.kind != Kind::gradient || !is_of_all) continue;
    if (is_expected_.insert(observation.name).second) expected_.push_back(observation.name);
    if (!is_undefined(observation)) values.insert(gradient_key(observation));
  }
  for (int rank = 0; rank < step.actual.processes(); ++rank) {
    for (const Observation& observation : step.actual.observations(rank)) {
      if (observation.kind != Kind::gradient) continue;
      auto& ranks = seen_[observation.name];
      ranks.resize(static_cast<std::size_t>(step.actual.processes()));
      ranks[static_cast<std::size_t>(rank)].see(observation,
                                                values.contains(gradient_key(observation)));
    }
  }
}

/// Whether the reference has a gradient in an observed step of each rank, and no rank ever had one.
/// If ranks hold shards of a gradient, some hold none.
bool WrongValuesFold::is_never_trained(const std::string& name) const {
  const auto found = seen_.find(name);
  if (found == seen_.end()) return false;
  const std::vector<SeenGradient>& ranks = found->second;
  const bool is_spread = std::any_of(ranks.begin(), ranks.end(), [](const SeenGradient& seen) {
    return seen.is_there && seen.is_shard;
  });
  return std::all_of(ranks.begin(), ranks.end(), [&](const SeenGradient& seen) {
    return seen.is_there ? !seen.has_value && seen.is_expected : is_spread;
  });
}

/// The position of a finding on the lowest rank that observed it.
ValuePlace WrongValuesFold::place_of_finding(const Finding& finding) const {
  if (!cell_.evidence) return {finding.step, 0, finding.tensor};
  const auto step = cell_.evidence->at(finding.step);
  for (int rank = 0; rank < step->processes(); ++rank) {
    for (const Observation& observation : step->observations(rank)) {
      if (concerns(finding.claim, observation) && observation.name == finding.tensor) {
        return place_of(observation);
      }
    }
  }
  return {finding.step, 0, finding.tensor};
}

WrongValues WrongValuesFold::result(const std::vector<ClaimResult>& results) const {
  if (keeps_every_claim(results)) return {};
  WrongValues wrong;
  for (const std::string& name : expected_) {
    if (is_never_trained(name)) wrong.never_trained.push_back(name);
  }
  wrong.is_known_to_agree = cell_.evidence != nullptr;
  for (const Predicate agree : {Predicate::agree_across_ranks, Predicate::agree_periodically}) {
    const Finding* const apart = first_finding(results, agree);
    if (apart) note_parting(wrong.parting, place_of_finding(*apart));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_unequal_to_reference(results[i])) continue;
    if (!standings_[i].is_known) wrong.is_known_to_agree = false;
    if (standings_[i].parting) note_parting(wrong.parting, *standings_[i].parting);
  }
  if (const Finding* first = first_finding(results, Predicate::equal_reference)) {
    wrong.first = place_of_finding(*first);
  }
  return wrong;
}

const Finding* first_finding(const std::vector<ClaimResult>& results, Predicate predicate) {
  const Finding* first = nullptr;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate != predicate) continue;
    for (const Finding& finding : result.findings) {
      if (!first || finding.step < first->step) first = &finding;
    }
  }
  return first;
}

bool keeps_every_claim(const std::vector<ClaimResult>& results) {
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const auto& result) {
    return result.verdict == Verdict::holds;
  });
}

}  // namespace lockstep
