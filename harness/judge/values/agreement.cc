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

namespace lockstep {

namespace {

/// What has to be the same on all ranks that hold it: one tensor, or one shard of it. A shape that
/// differs makes another shard, a shape that differs of a whole tensor is a difference.
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
  std::int64_t seq = 0;  ///< of the lowest rank that holds it: execution order
  std::map<int, const Observation*> holders;
};

std::vector<HeldTensor> places_in_execution_order(const StepView& step, const Claim& claim) {
  std::map<std::pair<std::int64_t, HeldTensorKey>, HeldTensor> places;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& observation : step.observations(rank)) {
      if (!concerns(claim, observation)) continue;
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

/// What makes two values the same (`is_same_value`), so that thousands of ranks are grouped by it.
using ValueKey = std::tuple<Digest, std::string, std::vector<std::int64_t>, std::string>;

/// The ranks that hold the same, by their first.
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

/// The value of the first rank of a group.
struct KeptValue {
  int rank = 0;
  const SnapshotTensor* tensor = nullptr;
};

/// Of those groups that kept theirs, in their order.
std::vector<KeptValue> kept_values(const StepView& step, const HeldTensor& place,
                                   const std::vector<std::vector<int>>& groups) {
  std::vector<KeptValue> values;
  for (const std::vector<int>& group : groups) {
    const SnapshotTensor* const kept = step.kept(group.front(), *place.holders.at(group.front()));
    if (kept) values.push_back({group.front(), kept});
  }
  return values;
}

/// How two values differ; nothing where they cannot be compared.
std::optional<ValueDifference> difference_between(const SnapshotTensor& left,
                                                  const SnapshotTensor& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) return {};
  return difference(left, right);
}

/// Notes the first element that differs, of the first two groups that can be compared.
void note_first(const ValueDifference& apart, int a, int b, Finding& finding) {
  finding.first_difference = apart.first;
  finding.first_difference->left = fmt::format("rank {}", a);
  finding.first_difference->right = fmt::format("rank {}", b);
  finding.elements = apart.elements;
  finding.differing_elements = apart.differing;
}

/// The largest difference between any two groups; also fills the evidence of `finding` when asked.
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
  text += ".";
  if (finding.last_step > finding.step) {
    text += fmt::format(" It goes on until step {}", finding.last_step);
    if (finding.last_worst_difference != 0) {
      text += fmt::format(", by up to {} there", number(finding.last_worst_difference));
    }
    text += ".";
  }
  return text;
}

/// Who has to hold a tensor: every rank, or of a shard or a replica group whoever held it in any
/// step.
class ExpectedHolders {
 public:
  ExpectedHolders(const StepReader& evidence, const Claim& claim)
      : processes_(evidence.processes()) {
    for (const auto& [tensor, ranks] : evidence.tensors()) {
      if (!concerns(claim, tensor)) continue;
      ranks_[HeldTensorKey(tensor)].insert(ranks.begin(), ranks.end());
      observing_.insert(ranks.begin(), ranks.end());
    }
  }

  /// Of what all ranks have to hold, nothing is said before all do; of shards and replica groups,
  /// whoever holds them is compared.
  bool may_be_compared(const HeldTensor& place) const {
    return !is_everywhere(*place.holders.begin()->second) || are_all_in(place);
  }

  /// Whether a tensor of all ranks was held by all that observed anything: it is no other one of
  /// the same name on each stage of a pipeline.
  bool were_ever_all_in(const HeldTensor& place) const {
    const Observation& any = *place.holders.begin()->second;
    return !is_everywhere(any) || ranks_.at(HeldTensorKey(any)).size() == observing_.size();
  }

  /// Whether the rank observed anything of the claim.
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
  std::set<int> observing_;  ///< ranks that observed anything of the claim
};

/// A tensor that nobody looked at any more after some step agrees for the lack of anybody who would
/// see it differ. Without a plan of the steps it may be due again.
class LastSeen {
 public:
  explicit LastSeen(bool is_planned) : is_planned_(is_planned) {}

  /// Returns where it is noted when the tensor was seen last.
  Gap* add(const HeldTensor& place) {
    Gap& seen = tensors_[HeldTensorKey(*place.holders.begin()->second)];
    add(place.step, {&seen});
    return &seen;
  }

  void add(std::int64_t step, const std::vector<Gap*>& tensors) {
    if (!tensors.empty()) last_ = step;
    for (Gap* const seen : tensors) seen->note_observed(step);
  }

  /// The first by name, in words; empty where there is none.
  std::string first_abandoned() const {
    for (const auto& [key, seen] : tensors_) {
      if (seen.last() == last_ || (!is_planned_ && !seen.is_overdue(last_))) continue;
      return fmt::format("{} was observed on no rank after step {} of {}", key.name, seen.last(),
                         last_);
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

/// Why a place cannot be compared across ranks; empty when it can, and where there is nothing to
/// compare.
std::string obstacle(const HeldTensor& place, const ExpectedHolders& holders) {
  const Observation& any = *place.holders.begin()->second;
  if (!holders.are_all_in(place)) {
    return fmt::format("{} in step {} was not observed on every rank", any.name, place.step);
  }
  if (place.holders.size() < 2 || is_comparable(place) || is_undefined(any)) return "";
  return incomparable_in_words(any);
}

/// The differences of a claim, boiled down to one finding.
class Divergence {
 public:
  explicit Divergence(const Claim& claim) { finding_.claim = claim; }

  void add(const StepView& step, const HeldTensor& place,
           const std::vector<std::vector<int>>& groups) {
    const bool is_first = finding_.places++ == 0;
    const double worst = measure(step, place, groups, is_first ? &finding_ : nullptr);
    if (is_first) begin(place, groups, worst);
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

/// A rank that trained and observed nothing of what the claim is about, in words; empty where
/// there is none. Groups of copies do not miss it.
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
        holders_(*cell.evidence, claim),
        first_open_(first_open_step(cell)),
        divergence_(claim),
        last_seen_(cell.steps.has_value()),
        silent_rank_(cell.is_job ? first_silent_rank(cell, claim, holders_) : "") {}

  void see(const CellStep& step) override {
    if (seen_.size() == kMostRemembered) seen_.erase(seen_.begin());
    Seen& seen = seen_[step.actual.number()];
    for (const HeldTensor& place : places_in_execution_order(step.actual, claim_)) {
      if (place.step < first_open_) {
        seen.tensors.push_back(last_seen_.add(place));
        if (reason_.empty()) reason_ = obstacle(place, holders_);
      }
      // Where ranks have gone, those that are left are compared.
      const bool is_open = place.step >= first_open_;
      const bool is_left = is_open && holders_.were_ever_all_in(place);
      const bool is_compared = (is_left || holders_.may_be_compared(place)) &&
                               place.holders.size() > 1 && is_comparable(place);
      if (!is_compared) continue;
      ++seen.comparisons;
      const auto groups = groups_of(place);
      if (groups.size() > 1) divergence_.add(step.actual, place, groups);
    }
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
    if (!divergence_.is_empty()) {
      result.verdict = Verdict::violated;
      result.findings.push_back(divergence_.take());
      return;
    }
    if (reason_.empty()) reason_ = silent_rank_;
    result.reason = reason_.empty() ? last_seen_.first_abandoned() : reason_;
    if (!result.reason.empty()) return;
    result.verdict = comparisons_ > 0 ? Verdict::holds : Verdict::undecided;
    if (comparisons_ == 0) result.reason = "not triggered: nothing was compared";
  }

 private:
  /// What a step like this one adds.
  struct Seen {
    std::int64_t comparisons = 0;
    std::vector<Gap*> tensors;  ///< where `last_seen_` notes them
  };
  static constexpr std::size_t kMostRemembered = 64;  ///< what ranks observe changes rarely

  Claim claim_;
  ExpectedHolders holders_;
  std::int64_t first_open_;  ///< from which on a tensor may be missing
  Divergence divergence_;
  LastSeen last_seen_;
  std::map<std::int64_t, Seen> seen_;  ///< the latest steps
  std::int64_t comparisons_ = 0;
  std::string reason_;       ///< the first obstacle
  std::string silent_rank_;  ///< a rank that observed nothing, in words
};

}  // namespace

std::unique_ptr<ClaimFold> fold_agreement(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<AgreementFold>(cell, claim);
}

}  // namespace lockstep
