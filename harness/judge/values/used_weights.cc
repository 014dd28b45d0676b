#include "harness/judge/values/used_weights.h"

#include <algorithm>
#include <utility>

#include "harness/judge/values/whole_copies.h"

namespace lockstep {

namespace {

/// Whether parts are in the type of the weight that was used.
bool are_like(const RowsOfRanks& held, const Observation& used) {
  return std::ranges::all_of(held,
                             [&](const auto& part) { return part.second->dtype == used.dtype; });
}

UsedWeight compared(const StepView& step, const RowsOfRanks& used, const RowsOfRanks& held) {
  UsedWeight weight;
  const Observation& first = *used.begin()->second;
  if (!first.not_comparable.empty() || !are_like(held, first)) return weight;
  for (const WholeCopy& copy : whole_copies(step, held, first)) {
    for (const int rank : copy.ranks) {
      const auto own = used.find(rank);
      const bool is_known = own != used.end() && own->second->dtype == first.dtype &&
                            own->second->local_shape == first.local_shape &&
                            own->second->not_comparable.empty();
      if (!is_known) continue;
      weight.used.emplace(rank, own->second->digest);
      weight.held.emplace(rank, copy.digest);
      if (own->second->digest != copy.digest) weight.others.push_back(rank);
    }
  }
  std::ranges::sort(weight.others);
  return weight;
}

}  // namespace

std::map<std::string, UsedWeight> used_weights_in(const StepView& step) {
  std::map<std::string, UsedWeight> weights;
  const auto held = last_rows_of(step, Kind::held_weight, Phase::pre_forward);
  for (const auto& [name, used] : last_rows_of(step, Kind::used_weight, Phase::pre_forward)) {
    const auto parts = held.find(name);
    if (parts == held.end()) continue;
    UsedWeight weight = compared(step, used, parts->second);
    if (!weight.used.empty()) weights.emplace(name, std::move(weight));
  }
  return weights;
}

}  // namespace lockstep
