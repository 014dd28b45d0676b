#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "harness/judge/compare_values.h"
#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

/// What has to be the same on all ranks that hold it: one tensor, or one shard of it.
using PlaceKey = std::tuple<std::int64_t, std::int64_t, std::string, std::string,
                            std::vector<std::int64_t>, std::vector<std::int64_t>>;

struct Place {
  std::int64_t step = 0;
  std::int64_t seq = 0;  ///< of the lowest rank that holds it: execution order
  std::map<int, const Observation*> holders;
};

/// A shape that differs makes another shard, a shape that differs of a whole tensor is a
/// difference.
PlaceKey comparable_key(const Observation& o) {
  PlaceKey key{o.step, o.micro_batch, o.name, o.replica_group, o.offset, o.local_shape};
  if (o.local_shape == o.global_shape) std::get<4>(key) = std::get<5>(key) = {};
  return key;
}

std::vector<Place> places_in_execution_order(const Case& the_case, const Claim& claim) {
  std::map<PlaceKey, Place> places;
  for (int rank = 0; rank < the_case.evidence->processes(); ++rank) {
    for (const Observation& observation : the_case.evidence->observations(rank)) {
      if (!concerns(claim, observation)) continue;
      Place& place = places[comparable_key(observation)];
      if (place.holders.empty()) {
        place.step = observation.step;
        place.seq = observation.seq;
      }
      place.holders[rank] = &observation;
    }
  }
  std::vector<Place> ordered;
  for (auto& [key, place] : places) ordered.push_back(std::move(place));
  std::stable_sort(ordered.begin(), ordered.end(), [](const Place& a, const Place& b) {
    return std::tie(a.step, a.seq) < std::tie(b.step, b.seq);
  });
  return ordered;
}

bool same_value(const Observation& a, const Observation& b) {
  return a.dtype == b.dtype && a.global_shape == b.global_shape &&
         a.not_comparable == b.not_comparable && a.fingerprint == b.fingerprint;
}

std::vector<std::vector<int>> groups_of(const Place& place) {
  std::vector<std::vector<int>> groups;
  for (const auto& [rank, observation] : place.holders) {
    const auto home = std::find_if(groups.begin(), groups.end(), [&, o = observation](auto& group) {
      return same_value(*place.holders.at(group.front()), *o);
    });
    if (home == groups.end()) {
      groups.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return groups;
}

/// The largest difference between any two groups; also fills the evidence of `finding` when asked.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): to be cut into parts
double measure(const Case& the_case, const Place& place,
               const std::vector<std::vector<int>>& groups, Finding* finding) {
  double worst = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i + 1; j < groups.size(); ++j) {
      const int a = groups[i].front();
      const int b = groups[j].front();
      const KeptTensor* left = the_case.evidence->kept(a, *place.holders.at(a));
      const KeptTensor* right = the_case.evidence->kept(b, *place.holders.at(b));
      if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) continue;
      const ValueDifference apart = difference(*left, *right);
      const bool furthest = std::isnan(apart.worst) || apart.worst > worst;
      worst = worse(worst, apart.worst);
      if (!finding) continue;
      if (!finding->first_difference && apart.first) {
        finding->first_difference = apart.first;
        finding->first_difference->left = fmt::format("rank {}", a);
        finding->first_difference->right = fmt::format("rank {}", b);
        finding->elements = apart.elements;
        finding->differing_elements = apart.differing;
      } else if (furthest) {
        finding->differing_elements = apart.differing;
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
  Holders(const std::vector<Place>& places, int processes) : processes_(processes) {
    for (const Place& place : places) {
      for (const auto& [rank, observation] : place.holders) {
        ranks_[key_without_step(*observation)].insert(rank);
      }
    }
  }

  bool are_all_in(const Place& place) const {
    const Observation& any = *place.holders.begin()->second;
    const bool is_everywhere = any.replica_group.empty() && any.local_shape == any.global_shape;
    const auto expected = is_everywhere ? static_cast<std::size_t>(processes_)
                                        : ranks_.at(key_without_step(any)).size();
    return place.holders.size() == expected;
  }

 private:
  static PlaceKey key_without_step(const Observation& observation) {
    PlaceKey key = comparable_key(observation);
    std::get<0>(key) = 0;
    return key;
  }

  std::map<PlaceKey, std::set<int>> ranks_;
  int processes_;
};

bool is_comparable(const Place& place) {
  return std::any_of(place.holders.begin(), place.holders.end(),
                     [](const auto& holder) { return holder.second->not_comparable.empty(); });
}

}  // namespace

// NOLINTNEXTLINE(readability-function-cognitive-complexity): to be cut into parts
void judge_agreement(const Case& the_case, ClaimResult& result) {
  const std::vector<Place> places = places_in_execution_order(the_case, result.claim);
  const Holders holders(places, the_case.evidence->processes());
  Finding finding;
  finding.claim = result.claim;
  std::string structural;
  for (const Place& place : places) {
    if (!holders.are_all_in(place)) {
      if (result.reason.empty()) {
        result.reason = fmt::format("{} in step {} was not observed on every rank",
                                    place.holders.begin()->second->name, place.step);
      }
      continue;
    }
    if (place.holders.size() < 2) continue;
    if (!is_comparable(place)) {
      const Observation& any = *place.holders.begin()->second;
      if (result.reason.empty() && !is_undefined(any)) result.reason = incomparable_in_words(any);
      continue;
    }
    ++result.comparisons;
    const auto groups = groups_of(place);
    if (groups.size() < 2) continue;
    const bool is_first = finding.places++ == 0;
    const double worst = measure(the_case, place, groups, is_first ? &finding : nullptr);
    if (is_first) {
      finding.step = place.step;
      finding.tensor = place.holders.begin()->second->name;
      finding.groups = groups;
      finding.worst_difference = worst;
      const int left = groups[0].front();
      const int right = groups[1].front();
      structural = structural_difference(*place.holders.at(left), fmt::format("rank {}", left),
                                         *place.holders.at(right), fmt::format("rank {}", right));
    }
    const double before = place.step == finding.last_step ? finding.last_worst_difference : 0;
    finding.last_step = place.step;
    finding.last_worst_difference = worse(before, worst);
  }
  if (finding.places > 0) {
    result.verdict = Verdict::violated;
    result.reason.clear();
    finding.sentence = sentence_of(finding, structural);
    result.findings.push_back(std::move(finding));
  } else if (result.reason.empty()) {
    result.verdict = result.comparisons > 0 ? Verdict::holds : Verdict::undecided;
    if (result.comparisons == 0) result.reason = "not triggered: nothing was compared";
  }
}

}  // namespace lockstep
