#include "harness/verdict/parts_updated_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/judge/values/shards.h"
#include "harness/verdict/other_updates.h"

namespace lockstep {

namespace {

/// Hyperparameters that change an update.
constexpr std::array<std::string_view, 12> kEffective{
    "lr",       "weight_decay", "momentum", "betas", "eps",      "dampening",
    "nesterov", "amsgrad",      "maximize", "alpha", "lr_decay", "rho"};

using Groups = std::vector<std::vector<int>>;  ///< ranks that update alike

/// The ranks that hold parts of a parameter, by its name.
std::map<std::string, std::set<int>> ranks_of_parts(const StepReader& evidence) {
  std::map<std::string, std::set<int>> ranks;
  for (const auto& [tensor, holders] : evidence.tensors()) {
    const bool is_parameter = tensor.kind == Kind::parameter && tensor.phase == Phase::post_step;
    if (is_parameter && is_part(tensor)) ranks[tensor.name].insert(holders.begin(), holders.end());
  }
  return ranks;
}

/// Those of which ranks of several groups hold parts.
std::vector<std::string> parameters_between(const Groups& groups,
                                            const std::map<std::string, std::set<int>>& parts) {
  std::vector<std::string> names;
  for (const auto& [name, holders] : parts) {
    const auto holds = [&, &all = holders](const std::vector<int>& ranks) {
      return std::ranges::any_of(ranks, [&](int rank) { return all.contains(rank); });
    };
    if (std::ranges::count_if(groups, holds) > 1) names.push_back(name);
  }
  return names;
}

/// Each optimizer is on all ranks: one of some ranks alone may train something else.
bool have_the_same_optimizers(const JobRecord& job) {
  std::map<std::string, std::set<int>> ranks;
  for (const Setting& one : job.configuration) {
    if (one.name.find('.') == one.name.npos) continue;
    ranks[optimizer_of(one.name)].insert(one.ranks.begin(), one.ranks.end());
  }
  return std::ranges::all_of(ranks, [&](const auto& one) {
    return static_cast<int>(one.second.size()) == training_ranks(job);
  });
}

Groups groups_of_settings(const JobRecord& job, std::int64_t step) {
  for (const auto& [name, values] : other_settings(job, step)) {
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    if (std::ranges::find(kEffective, last) == kEffective.end()) continue;
    Groups groups;
    for (const Setting& one : values) groups.push_back(one.ranks);
    return groups;
  }
  return {};
}

Groups groups_of_skips(const JobRecord& job, std::int64_t step) {
  const std::vector<int> skipping = ranks_that_skipped(job, step);
  std::vector<int> others;
  for (int rank = 0; rank < job.world_size; ++rank) {
    if (!std::ranges::binary_search(skipping, rank)) others.push_back(rank);
  }
  return {skipping, others};
}

/// The steps in which ranks may update apart.
std::set<std::int64_t> steps_of(const JobRecord& job) {
  std::set<std::int64_t> steps{job.steps.first};
  for (const SettingApart& one : job.settings_apart) steps.insert(one.step);
  for (const StepsOfRanks& one : job.skipped_by) steps.insert(one.steps.begin(), one.steps.end());
  return steps;
}

JobFault apart_from(const JobRecord& job, std::int64_t step, std::vector<std::string> names,
                    Groups groups, std::size_t parts, const std::string& cause) {
  Finding finding;
  finding.claim = update_parts_alike();
  finding.kind = FindingKind::wrong_update;
  finding.step = step;
  finding.last_step = job.steps.last;
  finding.tensor = names.front();
  finding.tensors = std::move(names);
  finding.compared = static_cast<std::int64_t>(parts);
  finding.places = static_cast<std::int64_t>(finding.tensors.size());
  finding.groups = std::move(groups);
  finding.sentence = fmt::format("ranks hold parts of {} and updated them apart in step {}: {}.",
                                 finding.tensor, step, cause);
  std::string text = fmt::format(
      "ranks updated their parts of parameters apart ({} of {}, from step {}). Cause: {}",
      finding.tensors.size(), parts, step, cause);
  return fault_of(std::move(finding), std::move(text));
}

}  // namespace

std::optional<JobFault> parts_updated_apart(const JobRecord& job, const StepReader& evidence) {
  const std::map<std::string, std::set<int>> parts = ranks_of_parts(evidence);
  if (parts.empty() || !have_the_same_optimizers(job)) return std::nullopt;
  for (const std::int64_t step : steps_of(job)) {
    std::string cause = skipped_in_words(job, step);
    Groups groups = cause.empty() ? groups_of_settings(job, step) : groups_of_skips(job, step);
    std::vector<std::string> names = parameters_between(groups, parts);
    if (names.empty()) continue;
    if (cause.empty()) cause = other_settings_in_words(job, step);
    return apart_from(job, step, std::move(names), std::move(groups), parts.size(), cause);
  }
  return std::nullopt;
}

}  // namespace lockstep
