#include "harness/verdict/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/judge.h"
#include "harness/judge/ranks/exits.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/shards.h"
#include "reports/base/names.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// A line has no room for an error that is a page.
constexpr std::size_t kMostOfAnError = 300;

std::string in_step(std::int64_t step) {
  return step > 0 ? fmt::format("in step {}", step) : "before the first step";
}

/// The culprit that tells most: a rank that raised, in the earliest step, the lowest. The order in
/// which ranks ended is a matter of luck.
const RankEnd* telling_end(const CellFacts& facts) {
  const std::vector<const RankEnd*>& found = facts.unexplained;
  const auto order = [](const RankEnd* end) {
    return std::tuple(end->ending != Ending::raised, end->step, end->rank);
  };
  const auto first =
      std::min_element(found.begin(), found.end(),
                       [&](const RankEnd* a, const RankEnd* b) { return order(a) < order(b); });
  return first == found.end() ? nullptr : *first;
}

/// " after a wrong step 1"; empty where no step before `step` is known to be wrong.
std::string after_wrong_step(std::int64_t wrong_step, std::int64_t step) {
  const bool is_before = wrong_step > 0 && wrong_step < step;
  return is_before ? fmt::format(" after a wrong step {}", wrong_step) : "";
}

CellOutcome error_of(const RankEnd& end, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.step = end.step;
  outcome.wrong_step = wrong_step;
  outcome.error = beginning(first_sentence(end.error), kMostOfAnError);
  const std::string late = after_wrong_step(wrong_step, end.step);
  outcome.kind = late.empty() ? OutcomeKind::raised : OutcomeKind::raised_late;
  outcome.text = fmt::format("raised {}{}: {}", in_step(end.step), late,
                             outcome.error.empty() ? "an error that says nothing" : outcome.error);
  return outcome;
}

CellOutcome not_finished(const CellFacts& facts, const RankEnd& end, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::not_finished;
  outcome.step = end.step;
  outcome.wrong_step = wrong_step;
  outcome.text = fmt::format("not finished: rank {} {} {}{}", end.rank, how(end), in_step(end.step),
                             after_wrong_step(wrong_step, end.step));
  if (const std::size_t more = facts.culprits.size() - 1; more > 0) {
    outcome.text += fmt::format(", and {} more {}", more, more == 1 ? "rank" : "ranks");
  }
  return outcome;
}

/// Of a cell whose ranks did not meet, by their program's fault.
CellOutcome unmet(const CollectiveMismatch& missed, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind =
      is_difference_of_calls(missed.fault) ? OutcomeKind::mismatched : OutcomeKind::not_finished;
  outcome.step = missed.step;
  outcome.wrong_step = wrong_step;
  outcome.text = fmt::format("{}{}: {}", name(outcome.kind),
                             after_wrong_step(wrong_step, missed.step), missed.sentence);
  outcome.text.pop_back();  // a line, not a sentence
  return outcome;
}

/// The first finding of violated claims of a predicate; of equal steps that of the first claim.
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
      return has_value(*there) && there->point == here->point && key_of(*there) == key_of(*here);
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

/// Where something was found, in execution order.
struct Place {
  std::int64_t step = 0;
  std::int64_t seq = 0;
  std::string tensor;

  bool operator<(const Place& other) const {
    return std::tie(step, seq) < std::tie(other.step, other.seq);
  }
};

Place place_of(const Observation& observation) {
  return {observation.step, observation.seq, observation.name};
}

/// The place of a finding on the lowest rank that looked there.
Place place_of(const CellEvidence& cell, const Finding& finding) {
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
  std::optional<Place> parting;  ///< the first place where they hold different values
  bool is_known = true;          ///< whether each was seen to hold whole values everywhere

  void note_parting(const Place& place) {
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

std::string in_words(const Place& parting) {
  return fmt::format("ranks differ from step {} on: {}", parting.step, parting.tensor);
}

CellOutcome never_trained_outcome(const std::vector<std::string>& names,
                                  const std::optional<Place>& parting, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::never_trained;
  outcome.step = outcome.wrong_step = wrong_step;
  outcome.tensor = names.front();
  outcome.text = "never trained: " + names.front();
  if (names.size() > 1) outcome.text += fmt::format(" and {} more", names.size() - 1);
  if (parting) outcome.text += ", and " + in_words(*parting);
  return outcome;
}

/// `wrong`: the first wrong value; nothing where ranks only differ from each other.
CellOutcome ranks_differ(const Place& parting, const std::optional<Place>& wrong,
                         std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::ranks_differ;
  outcome.step = parting.step;
  outcome.wrong_step = wrong_step;
  outcome.tensor = parting.tensor;
  outcome.text = in_words(parting);
  if (!wrong || !(*wrong < parting)) return outcome;
  const bool is_another = wrong->tensor != parting.tensor;
  if (is_another) {
    outcome.text += fmt::format(", after a wrong step {}: {}", wrong->step, wrong->tensor);
  } else if (wrong->step < parting.step) {
    outcome.text += fmt::format(", after a wrong step {}", wrong->step);
  }
  return outcome;
}

/// How a wrong value stands to the right one, behind a comma; empty where it cannot be told.
std::string ratio_text(const Finding& finding) {
  if (!finding.ratio_in_words.empty()) return ", " + finding.ratio_in_words;
  const bool is_finite = finding.relative_difference && !std::isnan(*finding.relative_difference);
  if (!is_finite) return finding.first_difference ? ", a value is not finite" : "";
  if (!finding.ratio || !finding.cosine) return "";
  return fmt::format(", ratio {:.4g}, cosine {:.4g}", *finding.ratio, *finding.cosine);
}

CellOutcome agree_but_wrong(const Finding& finding, bool is_known_to_agree) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::agree_but_wrong;
  outcome.step = outcome.wrong_step = finding.step;
  outcome.tensor = finding.tensor;
  outcome.ratio = finding.ratio;
  outcome.cosine = finding.cosine;
  outcome.text = fmt::format("{} from step {} on: {}{}",
                             is_known_to_agree ? "ranks agree but are wrong" : "wrong",
                             finding.step, finding.tensor, ratio_text(finding));
  return outcome;
}

/// Of a cell whose ranks finished and whose values are wrong; nothing when none was seen to be.
std::optional<CellOutcome> wrong_values(const CellEvidence& cell,
                                        const std::vector<ClaimResult>& results) {
  const std::int64_t wrong_step = first_damage(results);
  const Standing standing = standing_of(cell, results);
  const std::vector<std::string> names = never_trained(cell);
  if (!names.empty()) return never_trained_outcome(names, standing.parting, wrong_step);
  const Finding* wrong = first_finding(results, Predicate::equal_reference);
  if (standing.parting) {
    const auto place = wrong ? std::optional(place_of(cell, *wrong)) : std::nullopt;
    return ranks_differ(*standing.parting, place, wrong_step);
  }
  if (!wrong) return std::nullopt;
  return agree_but_wrong(*wrong, standing.is_known);
}

/// The largest excess of all, at the first place; nothing when memory stays within the reference's.
std::optional<CellOutcome> exceeded_memory(const std::vector<ClaimResult>& results) {
  const Finding* first = first_finding(results, Predicate::at_most_reference);
  if (!first) return std::nullopt;
  double factor = 0;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate != Predicate::at_most_reference) continue;
    factor = std::max(factor, 1 + result.margin.value_or(0) / 10);
  }
  CellOutcome outcome;
  outcome.kind = OutcomeKind::exceeds_memory;
  outcome.step = first->step;
  outcome.tensor = first->tensor;
  outcome.ratio = factor;
  outcome.text = fmt::format("exceeds memory: {:.3g} times the reference's", factor);
  return outcome;
}

bool keeps_every_claim(const std::vector<ClaimResult>& results) {
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const auto& result) {
    return result.verdict == Verdict::holds;
  });
}

/// Whether a rank did not come to its end.
bool has_ended_ranks(const CellEvidence& cell) {
  return std::any_of(cell.ends.begin(), cell.ends.end(),
                     [](const RankEnd& end) { return end.ending != Ending::finished; });
}

CellOutcome right() {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::right;
  outcome.text = "right";
  return outcome;
}

/// Of a cell in which nothing was found, and which does not keep every claim.
/// `progress`: how far ranks were that did not come to their end; empty: they did.
CellOutcome undecided(const std::vector<ClaimResult>& results, const std::string& progress) {
  const auto open = std::find_if(results.begin(), results.end(), [](const auto& result) {
    return result.verdict != Verdict::holds;
  });
  CellOutcome outcome;
  outcome.text = "undecided: ";
  if (!progress.empty()) {
    outcome.text += progress;
  } else {
    outcome.text += open == results.end() ? "nothing was claimed" : open->reason;
  }
  return outcome;
}

}  // namespace

CellOutcome outcome_of(const CellEvidence& cell, const CellFacts& facts,
                       const std::vector<ClaimResult>& results) {
  const CollectiveAnalysis& analysis = facts.analysis;
  const std::int64_t wrong_step = first_damage(results);
  if (const RankEnd* end = telling_end(facts)) {
    return end->ending == Ending::raised ? error_of(*end, wrong_step)
                                         : not_finished(facts, *end, wrong_step);
  }
  if (!analysis.blocking.empty() && has_ended_ranks(cell)) {
    return unmet(analysis.blocking.front(), wrong_step);
  }
  const bool is_mismatched = analysis.missed && is_difference_of_calls(analysis.missed->fault);
  if (keeps_every_claim(results)) return is_mismatched ? unmet(*analysis.missed, 0) : right();
  if (auto wrong = wrong_values(cell, results)) return *wrong;
  if (auto exceeded = exceeded_memory(results)) return *exceeded;
  if (is_mismatched) return unmet(*analysis.missed, 0);
  if (first_finding(results, Predicate::collectives_match)) return unmet(*analysis.missed, 0);
  return undecided(results, analysis.progress);
}

CellOutcome outcome_of_unrun(const std::string& precondition,
                             const std::optional<NotRun>& not_run) {
  CellOutcome outcome;
  outcome.text = not_run ? "not run: " + not_run->reason
                         : "undecided: the run was interrupted before this cell";
  if (precondition.empty()) return outcome;
  outcome.kind = OutcomeKind::not_applicable;
  outcome.text = "not applicable: " + precondition;
  return outcome;
}

}  // namespace lockstep
