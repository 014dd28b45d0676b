#include "harness/verdict/agreement_map.h"

#include <algorithm>
#include <utility>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostTensors = 2000;
constexpr std::size_t kMostRuns = 512;

bool differs(const HeldTensor& held) {
  const Observation& first = *held.holders.front().second;
  return is_comparable(held) &&
         std::any_of(held.holders.begin(), held.holders.end(),
                     [&](const auto& one) { return !is_same_value(*one.second, first); });
}

/// Joins the runs that are closest to each other, so that half as many remain.
void join_runs(std::vector<DifferingRun>& runs) {
  std::vector<std::int64_t> gaps;
  for (std::size_t i = 1; i < runs.size(); ++i) gaps.push_back(runs[i].first - runs[i - 1].last);
  const auto middle = gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  std::vector<DifferingRun> joined{runs[0]};
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].first - joined.back().last <= *middle) {
      joined.back().last = runs[i].last;
      joined.back().is_missing = joined.back().is_missing && runs[i].is_missing;
      joined.back().is_partial = true;
    } else {
      joined.push_back(runs[i]);
    }
  }
  runs = std::move(joined);
}

/// After an error, one rank alone may have observed a step.
bool is_compared_in(std::int64_t step, const StepReader& evidence) {
  int observers = 0;
  for (int rank = 0; rank < evidence.processes() && observers < 2; ++rank) {
    if (evidence.has_observed(rank, step)) ++observers;
  }
  return observers > 1 || evidence.processes() == 1;
}

}  // namespace

AgreementMapFold::AgreementMapFold(const CellEvidence& cell, std::vector<Claim> claims)
    : cell_(cell), claims_(std::move(claims)) {
  std::erase_if(claims_, [](const Claim& claim) { return !is_about_agreement(claim); });
}

/// The claims of a job about its start are about the first step alone.
bool AgreementMapFold::is_compared(const ObservedTensor& tensor, bool is_first_step) const {
  return std::any_of(claims_.begin(), claims_.end(),
                     [&](const Claim& claim) {
                       const bool is_over =
                           cell_.is_job && !is_first_step && is_about_the_start(claim);
                       return !is_over && concerns(claim, tensor);
                     }) &&
         !cell_.unshared.contains(tensor.name);
}

std::int64_t AgreementMapFold::see(const StepView& step) {
  ++place_;
  std::map<std::pair<Key, std::int64_t>, HeldTensor> tensors;  // and micro-batch
  std::map<std::pair<Kind, Phase>, std::set<int>> ranks;       // that observed any
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& one : step.observations(rank)) {
      if (!is_compared(one, place_ == 0)) continue;
      HeldTensor& held = tensors[{{one.kind, one.phase, one.name, one.replica_group, one.offset},
                                  one.micro_batch}];
      held.add(rank, {&one, one.micro_batch, one.seq, &one});
      ranks[{one.kind, one.phase}].insert(rank);
    }
  }
  std::map<Key, Disagreement> found;
  for (const auto& [key, held] : tensors) {
    const auto& [kind, phase, name, group, offset] = key.first;
    const bool is_missing = group.empty() && held.holders.size() < ranks.at({kind, phase}).size();
    if (differs(held)) {
      found[key.first] = {false, &held};
    } else if (is_missing) {
      found.try_emplace(key.first, Disagreement{true, &held});
    }
  }
  note_in_order(found, step.number());
  return static_cast<std::int64_t>(found.size());
}

void AgreementMapFold::note_in_order(const std::map<Key, Disagreement>& found, std::int64_t step) {
  std::vector<std::pair<std::int64_t, const Key*>> order;
  for (const auto& [key, one] : found) order.emplace_back(one.held->seq, &key);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
  });
  for (const auto& [seq, key] : order) {
    const Disagreement& one = found.at(*key);
    note(*key, step, one.is_missing, *one.held);
  }
}

void AgreementMapFold::note(const Key& key, std::int64_t step, bool is_missing,
                            const HeldTensor& held) {
  const auto [known, is_new] = places_.try_emplace(key, courses_.size());
  if (is_new && courses_.size() == kMostTensors) {
    places_.erase(known);
    left_out_.insert(key);
    return;
  }
  if (is_new) {
    TensorCourse tensor{
        std::get<Kind>(key), std::get<Phase>(key), std::get<2>(key), groups_of(held), {}, 0, 0};
    courses_.push_back({std::move(tensor), -1});
  }
  Course& course = courses_[known->second];
  std::vector<DifferingRun>& runs = course.tensor.runs;
  const bool goes_on =
      !runs.empty() && course.last_place == place_ - 1 && runs.back().is_missing == is_missing;
  if (goes_on) {
    runs.back().last = step;
  } else {
    runs.push_back({step, step, is_missing});
  }
  if (runs.size() > kMostRuns) join_runs(runs);
  course.last_place = place_;
  course.tensor.last = step;
  ++course.tensor.steps;
}

AgreementMap AgreementMapFold::take() {
  AgreementMap map;
  std::map<Key, std::set<int>> holders;
  for (const auto& [tensor, ranks] : cell_.evidence->tensors()) {
    if (!is_compared(tensor)) continue;
    holders[{tensor.kind, tensor.phase, tensor.name, tensor.replica_group, tensor.offset}].insert(
        ranks.begin(), ranks.end());
  }
  map.tensors = std::count_if(holders.begin(), holders.end(), [&](const auto& one) {
    const auto& [key, ranks] = one;
    return ranks.size() > 1 || places_.contains(key) || left_out_.contains(key);
  });
  for (Course& course : courses_) map.differing.push_back(std::move(course.tensor));
  map.left_out = static_cast<std::int64_t>(left_out_.size());
  const std::vector<std::int64_t>& steps = cell_.evidence->steps();
  const auto compared = [&](std::int64_t step) { return is_compared_in(step, *cell_.evidence); };
  const auto first = std::ranges::find_if(steps, compared);
  if (first == steps.end()) return map;
  map.first_step = *first;
  map.last_step = *std::find_if(steps.rbegin(), steps.rend(), compared);
  return map;
}

}  // namespace lockstep
