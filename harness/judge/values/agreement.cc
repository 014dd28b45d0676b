#include "harness/judge/values/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/compare_values.h"

namespace lockstep {

namespace {

/// What has to be the same on all ranks that hold it: one tensor, or one shard of it.
using HeldTensorKey = std::tuple<std::int64_t, std::int64_t, std::string, std::string,
                                 std::vector<std::int64_t>, std::vector<std::int64_t>>;

struct HeldTensor {
  std::int64_t step = 0;
  std::int64_t seq = 0;  ///< of the lowest rank that holds it: execution order
  std::map<int, const Observation*> holders;
};

/// A shape that differs makes another shard, a shape that differs of a whole tensor is a
/// difference.
HeldTensorKey comparable_key(const Observation& o) {
  HeldTensorKey key{o.step, o.micro_batch, o.name, o.replica_group, o.offset, o.local_shape};
  if (o.local_shape == o.global_shape) std::get<4>(key) = std::get<5>(key) = {};
  return key;
}

std::vector<HeldTensor> places_in_execution_order(const CellEvidence& cell, const Claim& claim) {
  std::map<HeldTensorKey, HeldTensor> places;
  for (int rank = 0; rank < cell.evidence->processes(); ++rank) {
    for (const Observation& observation : cell.evidence->observations(rank)) {
      if (!concerns(claim, observation)) continue;
      HeldTensor& place = places[comparable_key(observation)];
      if (place.holders.empty()) {
        place.step = observation.step;
        place.seq = observation.seq;
      }
      place.holders[rank] = &observation;
    }
  }
  std::vector<HeldTensor> ordered;
  for (auto& [key, place] : places) ordered.push_back(std::move(place));
  std::stable_sort(ordered.begin(), ordered.end(), [](const HeldTensor& a, const HeldTensor& b) {
    return std::tie(a.step, a.seq) < std::tie(b.step, b.seq);
  });
  return ordered;
}

std::vector<std::vector<int>> groups_of(const HeldTensor& place) {
  std::vector<std::vector<int>> groups;
  for (const auto& [rank, observation] : place.holders) {
    const auto home = std::find_if(groups.begin(), groups.end(), [&, o = observation](auto& group) {
      return is_same_value(*place.holders.at(group.front()), *o);
    });
    if (home == groups.end()) {
      groups.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return groups;
}

/// How two ranks' values of a place differ; nothing where they cannot be compared.
std::optional<ValueDifference> difference_between(const CellEvidence& cell, const HeldTensor& place,
                                                  int a, int b) {
  const SnapshotTensor* left = cell.evidence->kept(a, *place.holders.at(a));
  const SnapshotTensor* right = cell.evidence->kept(b, *place.holders.at(b));
  if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) return {};
  return difference(*left, *right);
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
double measure(const CellEvidence& cell, const HeldTensor& place,
               const std::vector<std::vector<int>>& groups, Finding* finding) {
  double worst = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i + 1; j < groups.size(); ++j) {
      const int a = groups[i].front();
      const int b = groups[j].front();
      const auto apart = difference_between(cell, place, a, b);
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
class Holders {
 public:
  Holders(const std::vector<HeldTensor>& places, int processes) : processes_(processes) {
    for (const HeldTensor& place : places) {
      for (const auto& [rank, observation] : place.holders) {
        ranks_[key_without_step(*observation)].insert(rank);
      }
    }
  }

  bool are_all_in(const HeldTensor& place) const {
    const Observation& any = *place.holders.begin()->second;
    const bool is_everywhere = any.replica_group.empty() && any.local_shape == any.global_shape;
    const auto expected = is_everywhere ? static_cast<std::size_t>(processes_)
                                        : ranks_.at(key_without_step(any)).size();
    return place.holders.size() == expected;
  }

 private:
  static HeldTensorKey key_without_step(const Observation& observation) {
    HeldTensorKey key = comparable_key(observation);
    std::get<0>(key) = 0;
    return key;
  }

  std::map<HeldTensorKey, std::set<int>> ranks_;
  int processes_;
};

/// A tensor that nobody looked at any more after some step agrees for the lack of anybody who would
/// see it differ. `places` in the order of steps. Empty where there is none.
std::string first_abandoned(const std::vector<HeldTensor>& places) {
  std::map<HeldTensorKey, std::int64_t> last_seen;
  for (const HeldTensor& place : places) {
    HeldTensorKey key = comparable_key(*place.holders.begin()->second);
    std::get<0>(key) = 0;
    std::get<1>(key) = 0;  // the last step may well have fewer micro-batches
    last_seen[key] = place.step;
  }
  for (const auto& [key, step] : last_seen) {
    if (step == places.back().step) continue;
    return fmt::format("{} was observed on no rank after step {} of {}", std::get<2>(key), step,
                       places.back().step);
  }
  return "";
}

bool is_comparable(const HeldTensor& place) {
  return std::any_of(place.holders.begin(), place.holders.end(),
                     [](const auto& holder) { return holder.second->not_comparable.empty(); });
}

/// Why a place cannot be compared across ranks; empty when it can, and where there is nothing to
/// compare.
std::string obstacle(const HeldTensor& place, const Holders& holders) {
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
  Divergence(const CellEvidence& cell, const Claim& claim) : cell_(cell) { finding_.claim = claim; }

  void add(const HeldTensor& place, const std::vector<std::vector<int>>& groups) {
    const bool is_first = finding_.places++ == 0;
    const double worst = measure(cell_, place, groups, is_first ? &finding_ : nullptr);
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

  const CellEvidence& cell_;
  Finding finding_;
  std::string structural_;
};

}  // namespace

void judge_agreement(const CellEvidence& cell, ClaimResult& result) {
  const std::vector<HeldTensor> places = places_in_execution_order(cell, result.claim);
  const Holders holders(places, cell.evidence->processes());
  Divergence divergence(cell, result.claim);
  for (const HeldTensor& place : places) {
    if (result.reason.empty()) result.reason = obstacle(place, holders);
    const bool is_compared =
        holders.are_all_in(place) && place.holders.size() > 1 && is_comparable(place);
    if (!is_compared) continue;
    ++result.comparisons;
    const auto groups = groups_of(place);
    if (groups.size() > 1) divergence.add(place, groups);
  }
  if (result.reason.empty()) result.reason = first_abandoned(places);
  if (!divergence.is_empty()) {
    result.verdict = Verdict::violated;
    result.reason.clear();
    result.findings.push_back(divergence.take());
  } else if (result.reason.empty()) {
    result.verdict = result.comparisons > 0 ? Verdict::holds : Verdict::undecided;
    if (result.comparisons == 0) result.reason = "not triggered: nothing was compared";
  }
}

}  // namespace lockstep
