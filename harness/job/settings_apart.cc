#include "harness/job/settings_apart.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace lockstep {

namespace {

/// Hyperparameters as a rank had them, step by step.
class SettingsInStep {
 public:
  explicit SettingsInStep(const RankFacts& facts)
      : next_(facts.hyperparameters.begin()), end_(facts.hyperparameters.end()) {}

  /// Steps ascend.
  const std::map<std::string, std::string>& at(std::int64_t step) {
    for (; next_ != end_ && next_->first <= step; ++next_) {
      for (const auto& [name, value] : next_->second) now_[name] = value;
    }
    return now_;
  }

 private:
  std::map<std::int64_t, std::map<std::string, std::string>>::const_iterator next_, end_;
  std::map<std::string, std::string> now_;
};

/// The steps in which a hyperparameter changed on some rank, as far as all ranks know theirs.
std::set<std::int64_t> steps_with_changes(const std::map<int, RankFacts>& facts) {
  std::int64_t until = facts.empty() ? 0 : facts.begin()->second.hyperparameters_until;
  for (const auto& [rank, one] : facts) until = std::min(until, one.hyperparameters_until);
  std::set<std::int64_t> steps;
  for (const auto& [rank, one] : facts) {
    for (const auto& [step, values] : one.hyperparameters) {
      if (step <= until) steps.insert(step);
    }
  }
  return steps;
}

/// Ranks, by name and value of a hyperparameter.
using Holders = std::map<std::string, std::map<std::string, std::vector<int>>>;

Holders holders_in(std::int64_t step, std::map<int, SettingsInStep>& ranks) {
  Holders holders;
  for (auto& [rank, settings] : ranks) {
    for (const auto& [name, value] : settings.at(step)) holders[name][value].push_back(rank);
  }
  std::erase_if(holders, [](const auto& one) { return one.second.size() < 2; });
  return holders;
}

/// Whether the configurations tell how ranks have it in their first step.
bool is_configured(const std::string& name, const std::map<int, RankFacts>& facts) {
  return std::ranges::any_of(
      facts, [&](const auto& one) { return one.second.configuration.contains(name); });
}

}  // namespace

std::vector<SettingApart> settings_apart_in(const std::map<int, RankFacts>& facts) {
  std::map<int, SettingsInStep> ranks;
  for (const auto& [rank, one] : facts) ranks.emplace(rank, one);
  std::map<std::string, SettingApart> apart;
  const std::set<std::int64_t> steps = steps_with_changes(facts);
  for (const std::int64_t step : steps) {
    for (const auto& [name, values] : holders_in(step, ranks)) {
      const auto [found, is_new] = apart.emplace(name, SettingApart{name, step, {}});
      if (!is_new) continue;
      for (const auto& [value, those] : values) {
        found->second.values.push_back({name, value, those});
      }
    }
  }
  std::vector<SettingApart> all;
  for (auto& [name, one] : apart) {
    if (one.step > *steps.begin() || !is_configured(name, facts)) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace lockstep
