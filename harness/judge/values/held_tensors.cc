#include "harness/judge/values/held_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

/// The criteria of `is_same_value` as a key, so that thousands of ranks can be grouped.
using ValueKey = std::tuple<Digest, std::string, std::vector<std::int64_t>, std::string>;

bool is_everywhere(const ObservedTensor& tensor) {
  return tensor.replica_group.empty() && tensor.local_shape == tensor.global_shape;
}

}  // namespace

HeldTensorKey::HeldTensorKey(const ObservedTensor& tensor)
    : name(tensor.name), replica_group(tensor.replica_group) {
  if (tensor.local_shape == tensor.global_shape) return;
  offset = tensor.offset;
  local_shape = tensor.local_shape;
}

std::vector<HeldTensor> held_tensors(const StepView& step, const Claim& claim,
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

namespace {

bool has_copies(const ObservedTensor& tensor, const std::vector<int>& ranks) {
  return tensor.not_comparable.empty() && ranks.size() > 1;
}

/// Whether tensors of the claim were observed, and none of them can be compared.
bool is_incomparable(const Claim& claim, const StepReader& evidence) {
  bool is_observed = false;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (!concerns(claim, tensor) || is_undefined(tensor)) continue;
    if (has_copies(tensor, ranks)) return false;
    is_observed = is_observed || tensor.is_summand || !tensor.not_comparable.empty();
  }
  return is_observed;
}

}  // namespace

std::set<std::string> compared_after_step(const StepReader& evidence) {
  const Claim claim = agree_across_ranks(Kind::parameter, Phase::post_step);
  std::set<std::string> names;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (concerns(claim, tensor) && has_copies(tensor, ranks)) names.insert(tensor.name);
  }
  return names;
}

std::vector<Claim> without_incomparable(std::vector<Claim> claims, const StepReader& evidence) {
  if (compared_after_step(evidence).empty()) return claims;
  std::erase_if(claims, [&](const Claim& claim) {
    return is_about_agreement(claim) && is_incomparable(claim, evidence);
  });
  return claims;
}

bool is_comparable(const HeldTensor& place) {
  return std::any_of(place.holders.begin(), place.holders.end(),
                     [](const auto& holder) { return holder.second->not_comparable.empty(); });
}

ExpectedHolders::ExpectedHolders(const CellEvidence& cell, const Claim& claim)
    : kind_(*claim.kind), processes_(cell.evidence->processes()) {
  for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
    if (!concerns(claim, tensor)) continue;
    ranks_[HeldTensorKey(tensor)].insert(ranks.begin(), ranks.end());
    observing_.insert(ranks.begin(), ranks.end());
  }
}

bool ExpectedHolders::are_all_in(const HeldTensor& place) const {
  const Observation& any = *place.holders.begin()->second;
  const auto expected = is_everywhere(any) ? static_cast<std::size_t>(processes_)
                                           : ranks_.at(HeldTensorKey(any)).size();
  return place.holders.size() == expected;
}

bool ExpectedHolders::may_be_compared(const HeldTensor& place) const {
  return !is_everywhere(*place.holders.begin()->second) || are_all_in(place);
}

bool ExpectedHolders::were_ever_all_in(const HeldTensor& place) const {
  const Observation& any = *place.holders.begin()->second;
  if (!is_everywhere(any)) return true;
  const auto found = ranks_.find(HeldTensorKey(any));
  return found != ranks_.end() && found->second.size() == observing_.size();
}

std::string ExpectedHolders::first_silent_rank(const CellEvidence& cell) const {
  for (const RankExit& end : cell.exits) {
    const bool has_trained = end.kind == ExitKind::finished || end.step > 0;
    if (!has_trained || observing_.contains(end.rank)) continue;
    return fmt::format("rank {} observed none of the {}", end.rank, plural(kind_));
  }
  return "";
}

}  // namespace lockstep
