#include "harness/verdict/other_updates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "reports/record/differing_settings.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// "0.001 on rank 0 and 0.002 on rank 1".
std::string values_in_words(const std::vector<Setting>& values) {
  std::vector<std::string> all;
  for (const Setting& one : values) {
    all.push_back(fmt::format("{} on {}", one.value, ranks_in_words(one.ranks)));
  }
  return fmt::format("{}", fmt::join(all, " and "));
}

/// ", of the optimizer made at train.py:40"; empty: the line is unknown.
std::string maker_in_words(const JobRecord& job, const std::string& optimizer) {
  std::vector<Setting> places;
  std::ranges::copy_if(job.optimizers, std::back_inserter(places),
                       [&](const Setting& one) { return one.name == optimizer; });
  if (places.empty()) return "";
  return ", of the optimizer made at " +
         (places.size() == 1 ? places.front().value : values_in_words(places));
}

/// "; StepLR took 0 steps on rank 1 and 5 on rank 0 up to step 6"; empty: its schedulers took as
/// many on all.
std::string schedules_in_words(const JobRecord& job, const std::string& optimizer) {
  const auto first = std::ranges::find(job.schedules, optimizer, &ScheduleSteps::optimizer);
  if (first == job.schedules.end()) return "";
  std::vector<std::string> counts;
  for (const ScheduleSteps& one : job.schedules) {
    const bool is_it =
        one.name == first->name && one.optimizer == optimizer && one.step == first->step;
    if (!is_it) continue;
    counts.push_back(fmt::format("{}{} on {}", one.steps, counts.empty() ? " steps" : "",
                                 ranks_in_words(one.ranks)));
  }
  return fmt::format("; {} took {} up to step {}", first->name, fmt::join(counts, " and "),
                     first->step);
}

}  // namespace

std::string optimizer_of(const std::string& setting) {
  const std::string group = setting.substr(0, setting.rfind('.'));
  return group.substr(0, group.find(" group "));
}

std::map<std::string, std::vector<Setting>> other_settings(const JobRecord& job,
                                                           std::int64_t step) {
  std::map<std::string, std::vector<Setting>> differing;
  if (step == job.steps.first) differing = differing_hyperparameters_of(job);
  for (const SettingApart& one : job.settings_apart) {
    if (one.step == step) differing.emplace(one.name, one.values);
  }
  // Of a schedule, which begins by it: no update has it.
  std::erase_if(differing, [](const auto& one) { return one.first.ends_with(".initial_lr"); });
  return differing;
}

std::string other_settings_in_words(const JobRecord& job, std::int64_t step) {
  const auto differing = other_settings(job, step);
  if (differing.empty()) return "";
  std::vector<std::string> words;
  for (const auto& [name, values] : differing) {
    words.push_back(fmt::format("{} is {}", name, values_in_words(values)));
  }
  const std::string optimizer = optimizer_of(differing.begin()->first);
  return fmt::format("{}{}{}", fmt::join(words, "; "), maker_in_words(job, optimizer),
                     schedules_in_words(job, optimizer));
}

std::vector<int> ranks_that_skipped(const JobRecord& job, std::int64_t step) {
  std::vector<int> ranks;
  for (const StepsOfRanks& one : job.skipped_by) {
    if (!std::ranges::binary_search(one.steps, step)) continue;
    ranks.insert(ranks.end(), one.ranks.begin(), one.ranks.end());
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::string skipped_in_words(const JobRecord& job, std::int64_t step) {
  const std::vector<int> ranks = ranks_that_skipped(job, step);
  const bool is_of_some = !ranks.empty() && static_cast<int>(ranks.size()) < training_ranks(job);
  return is_of_some
             ? fmt::format("a gradient scaler skipped the step on {} alone", ranks_in_words(ranks))
             : "";
}

}  // namespace lockstep
