#include "harness/judge/values/stray_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

bool have_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& name) { return b.contains(name); });
}

/// The ranks that hold each tensor.
std::map<std::string, std::set<int>> ranks_by_name(const std::vector<HeldTensor>& tensors) {
  std::map<std::string, std::set<int>> ranks;
  for (const HeldTensor& tensor : tensors) {
    for (const auto& [rank, value] : tensor.holders) ranks[value->name].insert(rank);
  }
  return ranks;
}

/// The same the other way round.
std::map<int, std::set<std::string>> names_by_rank(
    const std::map<std::string, std::set<int>>& ranks_of) {
  std::map<int, std::set<std::string>> names;
  for (const auto& [name, ranks] : ranks_of) {
    for (const int rank : ranks) names[rank].insert(name);
  }
  return names;
}

}  // namespace

StrayRanks::StrayRanks(const CellEvidence& cell, const Claim& claim) {
  if (!cell.is_job) return;
  for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
    if (concerns(claim, tensor)) holders_[tensor.name].insert(ranks.begin(), ranks.end());
  }
}

bool StrayRanks::may_stray(int rank, const std::set<std::string>& others) const {
  return std::ranges::any_of(others, [&](const std::string& name) {
    const auto known = holders_.find(name);
    return known != holders_.end() && known->second.contains(rank);
  });
}

void StrayRanks::see(std::int64_t step, const std::vector<HeldTensor>& tensors) {
  const std::map<std::string, std::set<int>> now = ranks_by_name(tensors);
  const bool are_all_there = std::ranges::all_of(now, [&](const auto& held) {
    const auto known = holders_.find(held.first);
    return known == holders_.end() || known->second.size() == held.second.size();
  });
  if (are_all_there) return;
  const std::map<int, std::set<std::string>> names = names_by_rank(now);
  std::map<std::set<std::string>, int> sets;  // the lowest rank with each
  for (const auto& [rank, own] : names) sets.emplace(own, rank);
  for (const auto& [rank, own] : names) {
    for (const auto& [others, other] : sets) {
      if (have_common(own, others) || !may_stray(rank, others)) continue;
      ranks_.insert(rank);
      if (!words_.empty()) break;
      words_ = fmt::format(
          "rank {} stepped optimizers in step {} that rank {} did not ({}), so its later steps "
          "have other numbers and cannot be compared (--ignore leaves those optimizers out)",
          rank, step, other, *own.begin());
      break;
    }
  }
}

void StrayRanks::leave_out(HeldTensor& tensor) const {
  for (const int rank : ranks_) tensor.holders.erase(rank);
}

}  // namespace lockstep
