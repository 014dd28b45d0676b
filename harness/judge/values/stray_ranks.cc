#include "harness/judge/values/stray_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

void sort_once(std::vector<int>& ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

bool have_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& name) { return b.contains(name); });
}

/// The ranks that hold each tensor, ascending.
StrayRanks::RanksByName ranks_by_name(const HeldTensors& tensors) {
  StrayRanks::RanksByName ranks;
  for (const HeldTensor& tensor : tensors) {
    std::vector<int>& all = ranks[tensor.tensor->name];
    for (const auto& [rank, value] : tensor.holders) all.push_back(rank);
  }
  for (auto& [name, all] : ranks) sort_once(all);
  return ranks;
}

/// The same the other way round.
std::map<int, std::set<std::string>> names_by_rank(const StrayRanks::RanksByName& ranks_of) {
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
    if (!concerns(claim, tensor)) continue;
    std::vector<int>& all = holders_[tensor.name];
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  for (auto& [name, all] : holders_) sort_once(all);
}

bool StrayRanks::may_stray(int rank, const std::set<std::string>& others) const {
  return std::ranges::any_of(others, [&](const std::string& name) {
    const auto known = holders_.find(name);
    return known != holders_.end() && std::ranges::binary_search(known->second, rank);
  });
}

void StrayRanks::see(std::int64_t step, const HeldTensors& tensors) {
  const RanksByName now = ranks_by_name(tensors);
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
  for (const int rank : ranks_) tensor.leave_out(rank);
}

}  // namespace lockstep
