#include "harness/judge/values/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/gap.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/compare_values.h"
#include "harness/judge/values/distance.h"
#include "harness/judge/values/rounding_drift.h"
#include "harness/judge/values/unshared_tensors.h"

namespace lockstep {

namespace {

/// Identifies data that must be equal on all its ranks: one tensor, or one shard of it. A shard
/// with a different shape is another shard; a whole tensor with a different shape is a difference.
struct HeldTensorKey {
  std::string name;
  std::string replica_group;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> local_shape;

  explicit HeldTensorKey(const ObservedTensor& tensor)
      : name(tensor.name), replica_group(tensor.replica_group) {
    if (tensor.local_shape == tensor.global_shape) return;
    offset = tensor.offset;
    local_shape = tensor.local_shape;
  }

  auto operator<=>(const HeldTensorKey&) const = default;
};

/// A tensor in one micro-batch of a step.
struct HeldTensor {
  std::int64_t step = 0;
  std::int64_t seq = 0;  ///< on its lowest rank: execution order
  std::map<int, const Observation*> holders;
};

std::vector<HeldTensor> places_in_execution_order(const StepView& step, const Claim& claim,
                                                  const std::set<std::string>& unshared) {
  std::map<std::pair<std::int64_t, HeldTensorKey>, HeldTensor> places;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& observation : step.observations(rank)) {
      if (!concerns(claim, observation) || unshared.contains(observation.name)) continue;
      HeldTensor& place = places[{observation.micro_batch, HeldTensorKey(observation)}];
      if (place.holders.empty()) {
        place.step = observation.step;
        place.seq = observation.seq;
      }
      place.holders[rank] = &observation;
    }
  }
  std::vector<HeldTensor> ordered;
  for (auto& [key, place] : places) ordered.push_back(std::move(place));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const HeldTensor& a, const HeldTensor& b) { return a.seq < b.seq; });
  return ordered;
}

/// The criteria of `is_same_value` as a key, so that thousands of ranks can be grouped.
using ValueKey = std::tuple<Digest, std::string, std::vector<std::int64_t>, std::string>;

/// Ranks with the same value, by lowest rank.
std::vector<std::vector<int>> groups_of(const HeldTensor& place) {
  std::vector<std::vector<int>> groups;
  std::map<ValueKey, std::size_t> known;
  for (const auto& [rank, one] : place.holders) {
    const auto [found, is_new] = known.emplace(
        ValueKey{one->digest, one->dtype, one->global_shape, one->not_comparable}, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(rank);
  }
  return groups;
}

/// The snapshot of a group's first rank.
struct KeptValue {
  int rank = 0;
  const SnapshotTensor* tensor = nullptr;
};

/// One per group with a snapshot, in group order.
std::vector<KeptValue> kept_values(const StepView& step, const HeldTensor& place,
                                   const std::vector<std::vector<int>>& groups) {
  std::vector<KeptValue> values;
  for (const std::vector<int>& group : groups) {
    const SnapshotTensor* const kept = step.kept(group.front(), *place.holders.at(group.front()));
    if (kept) values.push_back({group.front(), kept});
  }
  return values;
}

/// Difference of two values; empty if they cannot be compared.
std::optional<ValueDifference> difference_between(const SnapshotTensor& left,
                                                  const SnapshotTensor& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) return {};
  return difference(left, right);
}

/// Stores the first differing element of the first two comparable groups.
void note_first(const ValueDifference& apart, int a, int b, Finding& finding) {
  finding.first_difference = apart.first;
  finding.first_difference->left = fmt::format("rank {}", a);
  finding.first_difference->right = fmt::format("rank {}", b);
  finding.elements = apart.elements;
  finding.differing_elements = apart.differing;
}

/// The largest difference between any two groups; also fills the evidence of `finding` if it is
/// given.
double measure(const StepView& step, const HeldTensor& place,
               const std::vector<std::vector<int>>& groups, Finding* finding) {
  double worst = 0;
  const std::vector<KeptValue> values = kept_values(step, place, groups);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      const int a = values[i].rank;
      const int b = values[j].rank;
      const auto apart = difference_between(*values[i].tensor, *values[j].tensor);
      if (!apart) continue;
      const bool furthest = std::isnan(apart->worst) || apart->worst > worst;
      worst = worse(worst, apart->worst);
      if (finding && !finding->first_difference && apart->first) {
        note_first(*apart, a, b, *finding);
      } else if (finding && furthest) {
        finding->differing_elements = apart->differing;
      }
    }
  }
  return worst;
}

/// The first rank of each group, with its value.
std::vector<Holder> holders_of(const HeldTensor& place,
                               const std::vector<std::vector<int>>& groups) {
  std::vector<Holder> holders;
  for (const std::vector<int>& group : groups) {
    holders.push_back({group.front(), place.holders.at(group.front())});
  }
  return holders;
}

/// Estimates how far the first two groups are apart where no values are stored.
void estimate(const StepView& step, const std::vector<Holder>& holders, Finding& finding) {
  const auto apart = distance_between(step, holders[0], holders[1]);
  if (!apart || !apart->error) return;
  for (const Holder& holder : holders) {
    if (holder.value->statistics.non_finite > 0) return;
  }
  finding.relative_difference = apart->relative;
  finding.estimate_error = apart->error;
  finding.cosine = apart->cosine;
  constexpr double kRounding = 1e-5;  // a factor and nothing else
  if (apart->ratio && apart->residual <= kRounding) finding.ratio = apart->ratio;
}

/// "; they are about 0.35 (±18 %) of their norm apart, cosine 0.94".
std::string estimate_in_words(const Finding& finding) {
  std::string text =
      *finding.estimate_error == 0
          ? fmt::format("; they are {:.2g} of their norm apart", *finding.relative_difference)
          : fmt::format("; they are about {:.2g} (±{:.0f} %) of their norm apart",
                        *finding.relative_difference, 100 * *finding.estimate_error);
  if (finding.ratio) {
    text += fmt::format(", that of rank {} is {} times that of rank {}", finding.groups[1].front(),
                        number(*finding.ratio), finding.groups[0].front());
  } else if (finding.cosine) {
    text += fmt::format(", cosine {:.2g}", *finding.cosine);
  }
  return text;
}

std::string sentence_of(const Finding& finding, const std::string& structural) {
  std::string text = fmt::format("{} do not agree across ranks: first in step {}, {}: {}",
                                 plural(*finding.claim.kind), finding.step, finding.tensor,
                                 groups_in_words(finding.groups));
  if (!structural.empty()) text += "; " + structural;
  if (finding.first_difference) {
    text += fmt::format("; {} of {} elements, by up to {}; {}", finding.differing_elements,
                        finding.elements, number(finding.worst_difference),
                        element_in_words(*finding.first_difference));
  }
  if (finding.estimate_error) text += estimate_in_words(finding);
  text += ".";
  if (finding.last_step > finding.step) {
    text += fmt::format(" Ranks still differ at step {}", finding.last_step);
    if (finding.last_worst_difference != 0) {
      text += fmt::format(" (max {})", number(finding.last_worst_difference));
    }
    text += ".";
  }
  return text;
}

/// The expected holders of a tensor: every rank. For a shard or replica group, the ranks that held
/// it in any step.
class ExpectedHolders {
 public:
  ExpectedHolders(const CellEvidence& cell, const Claim& claim)
      : processes_(cell.evidence->processes()) {
    for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
      if (!concerns(claim, tensor)) continue;
      ranks_[HeldTensorKey(tensor)].insert(ranks.begin(), ranks.end());
      observing_.insert(ranks.begin(), ranks.end());
    }
  }

  /// A tensor of all ranks is compared only after all have observed it. Shards and replica groups
  /// are compared between their holders.
  bool may_be_compared(const HeldTensor& place) const {
    return !is_everywhere(*place.holders.begin()->second) || are_all_in(place);
  }

  /// Whether all observing ranks ever held a tensor of all ranks. If not, each pipeline stage may
  /// have its own tensor of this name.
  bool were_ever_all_in(const HeldTensor& place) const {
    const Observation& any = *place.holders.begin()->second;
    return !is_everywhere(any) || ranks_.at(HeldTensorKey(any)).size() == observing_.size();
  }

  /// Whether the rank observed any tensor of the claim.
  bool is_observing(int rank) const { return observing_.contains(rank); }

  bool are_all_in(const HeldTensor& place) const {
    const Observation& any = *place.holders.begin()->second;
    const auto expected = is_everywhere(any) ? static_cast<std::size_t>(processes_)
                                             : ranks_.at(HeldTensorKey(any)).size();
    return place.holders.size() == expected;
  }

 private:
  static bool is_everywhere(const ObservedTensor& tensor) {
    return tensor.replica_group.empty() && tensor.local_shape == tensor.global_shape;
  }

  std::map<HeldTensorKey, std::set<int>> ranks_;
  int processes_;
  std::set<int> observing_;  ///< ranks with an observation for the claim
};

/// A tensor without observations after some step agrees trivially, because a difference would go
/// unseen. Without a plan of the steps it may still be due again.
class LastSeen {
 public:
  explicit LastSeen(bool is_planned) : is_planned_(is_planned) {}

  /// Returns the record of the tensor's last observation.
  Gap* add(const HeldTensor& place) {
    Gap& seen = tensors_[HeldTensorKey(*place.holders.begin()->second)];
    add(place.step, {&seen});
    return &seen;
  }

  void add(std::int64_t step, const std::vector<Gap*>& tensors) {
    if (!tensors.empty()) last_ = step;
    for (Gap* const seen : tensors) seen->note_observed(step);
  }

  /// The first by name, in words; empty if there is none.
  std::string first_abandoned() const {
    for (const auto& [key, seen] : tensors_) {
      if (seen.last() == last_ || (!is_planned_ && !seen.is_overdue(last_))) continue;
      return fmt::format("no rank observed {} after step {} of {}", key.name, seen.last(), last_);
    }
    return "";
  }

 private:
  bool is_planned_;
  std::int64_t last_ = 0;
  std::map<HeldTensorKey, Gap> tensors_;
};

bool is_comparable(const HeldTensor& place) {
  return std::any_of(place.holders.begin(), place.holders.end(),
                     [](const auto& holder) { return holder.second->not_comparable.empty(); });
}

/// Why a tensor cannot be compared across ranks; empty if it can, or if there is nothing to
/// compare.
std::string obstacle(const HeldTensor& place, const ExpectedHolders& holders) {
  const Observation& any = *place.holders.begin()->second;
  if (!holders.are_all_in(place)) {
    return fmt::format("{} in step {} was not observed on every rank", any.name, place.step);
  }
  if (place.holders.size() < 2 || is_comparable(place) || is_undefined(any)) return "";
  return incomparable_in_words(any);
}

/// Summarises the differences of a claim in one finding.
class Divergence {
 public:
  explicit Divergence(const Claim& claim) { finding_.claim = claim; }

  void add(const StepView& step, const HeldTensor& place,
           const std::vector<std::vector<int>>& groups) {
    const bool is_first = finding_.places++ == 0;
    const double worst = measure(step, place, groups, is_first ? &finding_ : nullptr);
    if (is_first) {
      begin(place, groups, worst);
      estimate(step, holders_of(place, groups), finding_);
    }
    if (place.step == finding_.step) note_tensor(place.holders.begin()->second->name);
    const double before = place.step == finding_.last_step ? finding_.last_worst_difference : 0;
    finding_.last_step = place.step;
    finding_.last_worst_difference = worse(before, worst);
  }

  bool is_empty() const { return finding_.places == 0; }

  Finding take() {
    finding_.sentence = sentence_of(finding_, structural_);
    return std::move(finding_);
  }

 private:
  void begin(const HeldTensor& place, const std::vector<std::vector<int>>& groups, double worst) {
    finding_.step = place.step;
    finding_.tensor = place.holders.begin()->second->name;
    finding_.groups = groups;
    finding_.worst_difference = worst;
    const int left = groups[0].front();
    const int right = groups[1].front();
    structural_ = structural_difference(*place.holders.at(left), fmt::format("rank {}", left),
                                        *place.holders.at(right), fmt::format("rank {}", right));
  }

  void note_tensor(const std::string& name) {
    std::vector<std::string>& names = finding_.tensors;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  Finding finding_;
  std::string structural_;
};

/// A rank that trained without observing any tensor of the claim, in words; empty if there is none.
/// Replica groups do not expect it.
std::string first_silent_rank(const CellEvidence& cell, const Claim& claim,
                              const ExpectedHolders& holders) {
  for (const RankExit& end : cell.exits) {
    const bool has_trained = end.kind == ExitKind::finished || end.step > 0;
    if (!has_trained || holders.is_observing(end.rank)) continue;
    return fmt::format("rank {} observed none of the {}", end.rank, plural(*claim.kind));
  }
  return "";
}

class AgreementFold : public ClaimFold {
 public:
  AgreementFold(const CellEvidence& cell, const Claim& claim)
      : claim_(claim),
        unshared_(cell.unshared),
        holders_(cell, claim),
        first_open_(first_open_step(cell)),
        divergence_(claim),
        rounding_(cell.world_size),
        may_round_(cell.is_job && !is_about_the_start(claim)),
        last_seen_(cell.steps.has_value()),
        silent_rank_(cell.is_job ? first_silent_rank(cell, claim, holders_) : "") {}

  void see(const CellStep& step) override {
    if (seen_.size() == kMostRemembered) seen_.erase(seen_.begin());
    Seen& seen = seen_[step.actual.number()];
    double squares = 0;
    for (const HeldTensor& place : places_in_execution_order(step.actual, claim_, unshared_)) {
      if (place.step < first_open_) {
        seen.tensors.push_back(last_seen_.add(place));
        if (reason_.empty()) reason_ = obstacle(place, holders_);
      }
      // After ranks have left, the remaining ones are compared.
      const bool is_open = place.step >= first_open_;
      const bool is_left = is_open && holders_.were_ever_all_in(place);
      const bool is_compared = (is_left || holders_.may_be_compared(place)) &&
                               place.holders.size() > 1 && is_comparable(place);
      if (!is_compared) continue;
      ++seen.comparisons;
      const double norm = place.holders.begin()->second->statistics.norm;
      squares += norm * norm;
      const auto groups = groups_of(place);
      if (groups.size() < 2) continue;
      divergence_.add(step.actual, place, groups);
      if (may_round_) rounding_.add(step.actual, holders_of(place, groups));
    }
    rounding_.end_step(step.actual.number(), seen.comparisons, std::sqrt(squares));
    comparisons_ += seen.comparisons;
  }

  bool knows(std::int64_t like) const override { return seen_.contains(like); }

  void see_alike(std::int64_t step, std::int64_t like) override {
    const Seen& seen = seen_.at(like);
    if (step < first_open_) last_seen_.add(step, seen.tensors);
    comparisons_ += seen.comparisons;
  }

  void write(ClaimResult& result) override {
    result.comparisons = comparisons_;
    const bool is_rounding = may_round_ && rounding_.is_all();
    if (!divergence_.is_empty() && !is_rounding) {
      result.verdict = Verdict::violated;
      result.findings.push_back(divergence_.take());
      return;
    }
    if (reason_.empty()) reason_ = silent_rank_;
    if (is_about_the_start(claim_)) {
      if (reason_.empty()) reason_ = unshared_in_words(unshared_);
    } else if (reason_.empty()) {
      reason_ = last_seen_.first_abandoned();
    }
    result.reason = reason_;
    if (!result.reason.empty()) return;
    result.verdict = comparisons_ > 0 ? Verdict::holds : Verdict::undecided;
    if (comparisons_ == 0) result.reason = "not triggered: nothing was compared";
    if (is_rounding) rounding_.write(result);
  }

 private:
  /// Contribution of a step equal to this one.
  struct Seen {
    std::int64_t comparisons = 0;
    std::vector<Gap*> tensors;  ///< their records in `last_seen_`
  };
  static constexpr std::size_t kMostRemembered = 64;  ///< sets of observed tensors rarely change

  Claim claim_;
  const std::set<std::string>& unshared_;
  ExpectedHolders holders_;
  std::int64_t first_open_;  ///< from this step on a tensor may be missing
  Divergence divergence_;
  RoundingDrift rounding_;
  bool may_round_;
  LastSeen last_seen_;
  std::map<std::int64_t, Seen> seen_;  ///< the latest steps
  std::int64_t comparisons_ = 0;
  std::string reason_;       ///< the first obstacle
  std::string silent_rank_;  ///< a rank without observations, in words
};

}  // namespace

std::unique_ptr<ClaimFold> fold_agreement(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<AgreementFold>(cell, claim);
}

}  // namespace lockstep
