#include "harness/judge/wrong_values.h"

#include <algorithm>
#include <map>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/shards.h"

namespace lockstep {

namespace {

bool has_value(const Observation& observation) { return !is_undefined(observation); }

/// What the ranks, one after another, or the reference observed of gradients.
struct Gradients {
  std::map<std::string, std::vector<const Observation*>> by_name;  ///< in execution order
  std::vector<std::string> names;                                  ///< in execution order

  /// `takes_all`: also what is noted of one rank alone.
  Gradients(const Evidence& evidence, int rank, bool takes_all) {
    for (const Observation& observation : evidence.observations(rank)) {
      const bool is_taken = takes_all || observation.replica_group.empty();
      if (observation.kind != Kind::gradient || !is_taken) continue;
      auto& places = by_name[observation.name];
      if (places.empty()) names.push_back(observation.name);
      places.push_back(&observation);
    }
  }
};

/// Whether a rank looked at a gradient that the reference has there, and never saw one.
bool is_missing(const std::vector<const Observation*>& seen,
                const std::vector<const Observation*>& expected) {
  if (std::any_of(seen.begin(), seen.end(), [](auto* o) { return has_value(*o); })) return false;
  return std::any_of(seen.begin(), seen.end(), [&](const Observation* here) {
    return std::any_of(expected.begin(), expected.end(), [&](const Observation* there) {
      return has_value(*there) && there->phase == here->phase && key_of(*there) == key_of(*here);
    });
  });
}

/// Whether ranks hold shards of a gradient, some of them nothing.
bool is_spread(const std::vector<Gradients>& ranks, const std::string& name) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const Gradients& rank) {
    const auto found = rank.by_name.find(name);
    return found != rank.by_name.end() && is_shard(*found->second.front());
  });
}

/// Gradients that the reference has and no rank ever had, in the reference's order.
std::vector<std::string> never_trained(const CellEvidence& cell) {
  std::vector<std::string> names;
  if (!cell.reference || !cell.evidence || cell.evidence->processes() == 0) return {};
  const Gradients expected(*cell.reference, 0, /*takes_all=*/false);
  std::vector<Gradients> seen;
  for (int rank = 0; rank < cell.evidence->processes(); ++rank) {
    seen.emplace_back(*cell.evidence, rank, /*takes_all=*/true);
  }
  for (const std::string& name : expected.names) {
    const bool is_never = std::all_of(seen.begin(), seen.end(), [&](const Gradients& rank) {
      const auto found = rank.by_name.find(name);
      if (found == rank.by_name.end()) return is_spread(seen, name);
      return is_missing(found->second, expected.by_name.at(name));
    });
    if (is_never) names.push_back(name);
  }
  return names;
}

/// Of one tensor in one step, by rank.
using Holders = std::map<int, const Observation*>;

std::map<TensorKey, Holders> holders_of(const Evidence& evidence, const Claim& claim) {
  std::map<TensorKey, Holders> holders;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    for (const Observation& observation : evidence.observations(rank)) {
      if (concerns(claim, observation)) holders[key_of(observation)][rank] = &observation;
    }
  }
  return holders;
}

enum class Sameness { same, different, unknown };

/// Whether two ranks hold the same bits; not known where one holds a shard.
Sameness sameness_of(const Observation& a, const Observation& b) {
  if (is_shard(a) || is_shard(b)) return Sameness::unknown;
  if (!is_same_value(a, b)) return Sameness::different;
  return a.not_comparable.empty() || is_undefined(a) ? Sameness::same : Sameness::unknown;
}

ValuePlace place_of(const Observation& observation) {
  return {observation.step, observation.seq, observation.name};
}

/// The place of a finding on the lowest rank that looked there.
ValuePlace place_of(const CellEvidence& cell, const Finding& finding) {
  const int ranks = cell.evidence ? cell.evidence->processes() : 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Observation& observation : cell.evidence->observations(rank)) {
      const bool is_here = concerns(finding.claim, observation) &&
                           observation.step == finding.step && observation.name == finding.tensor;
      if (is_here) return place_of(observation);
    }
  }
  return {finding.step, 0, finding.tensor};
}

/// How ranks stand to each other in all steps, in what violated claims are about.
struct Standing {
  std::optional<ValuePlace> parting;  ///< the first place where they hold different values
  bool is_known = true;               ///< whether each was seen to hold whole values everywhere

  void note_parting(const ValuePlace& place) {
    if (!parting || place < *parting) parting = place;
  }

  void add(const Holders& holders, int ranks) {
    if (static_cast<int>(holders.size()) != ranks) is_known = false;
    const Observation& first = *holders.begin()->second;
    for (const auto& [rank, observation] : holders) {
      const Sameness sameness = sameness_of(first, *observation);
      if (sameness == Sameness::unknown) is_known = false;
      if (sameness == Sameness::different) note_parting(place_of(first));
    }
  }
};

Standing standing_of(const CellEvidence& cell, const std::vector<ClaimResult>& results) {
  Standing standing;
  standing.is_known = cell.evidence != nullptr;
  if (const Finding* apart = first_finding(results, Predicate::agree_across_ranks)) {
    standing.note_parting(place_of(cell, *apart));
  }
  for (const ClaimResult& result : results) {
    const bool is_wrong =
        result.claim.predicate == Predicate::equal_reference && result.verdict == Verdict::violated;
    if (!is_wrong || !cell.evidence) continue;
    for (const auto& [key, holders] : holders_of(*cell.evidence, result.claim)) {
      standing.add(holders, cell.evidence->processes());
    }
  }
  return standing;
}

}  // namespace

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

WrongValues wrong_values_of(const CellEvidence& cell, const std::vector<ClaimResult>& results) {
  if (keeps_every_claim(results)) return {};
  const Standing standing = standing_of(cell, results);
  WrongValues wrong{never_trained(cell), standing.parting, standing.is_known, {}};
  if (const Finding* first = first_finding(results, Predicate::equal_reference)) {
    wrong.first = place_of(cell, *first);
  }
  return wrong;
}

}  // namespace lockstep
