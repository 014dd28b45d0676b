#include "harness/verdict/cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/wrong_values.h"
#include "harness/verdict/reduction_fold.h"
#include "reports/record/differing_settings.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// The first difference between ranks; null: there is none.
const Finding* first_parting(const JobRecord& job) {
  const Finding* first = nullptr;
  for (const ClaimResult& result : job.results) {
    if (result.claim.predicate != Predicate::agree_across_ranks) continue;
    for (const Finding& finding : result.findings) {
      const bool is_of_model =
          finding.claim.kind == Kind::gradient || finding.claim.kind == Kind::parameter;
      if (is_of_model && (!first || finding.step < first->step)) first = &finding;
    }
  }
  return first;
}

/// The broadcast of a wrapper makes initial weights equal, but for those that it has not seen.
bool may_explain(NoReduction reason, const Finding& parting) {
  if (parting.claim.kind == Kind::gradient) return true;
  if (parting.kind != FindingKind::initial_weights_differ) return false;
  return reason == NoReduction::added_after || reason == NoReduction::outside;
}

bool explains(const Unreduced& one, const Finding& parting) {
  const bool is_over = one.last_step > 0 && one.last_step < parting.step;
  const bool is_then = one.first_step <= parting.step && !is_over;
  if (!is_then || !may_explain(one.reason, parting) || parting.tensors.empty()) return false;
  const std::set<std::string> own(one.parameters.begin(), one.parameters.end());
  const bool are_all_its =
      std::ranges::all_of(parting.tensors, [&](const auto& name) { return own.contains(name); });
  const auto compared = std::min(static_cast<std::int64_t>(own.size()), parting.compared);
  return are_all_its && 2 * static_cast<std::int64_t>(parting.tensors.size()) >= compared;
}

/// "gradients were never synchronised (4 of 4, from step 1)".
std::string parting_in_words(const Finding& parting, const ObservedSteps& steps) {
  const std::string count = fmt::format("{} of {}{}", parting.tensors.size(), parting.compared,
                                        parting.pattern.empty() ? "" : ", all " + parting.pattern);
  if (parting.kind == FindingKind::initial_weights_differ) {
    return fmt::format("initial weights differ ({})", count);
  }
  const bool is_always = parting.step == steps.first && parting.last_step >= steps.last;
  return fmt::format("gradients were {} synchronised ({}, from step {})",
                     is_always ? "never" : "not", count, parting.step);
}

/// How gradients that differ between ranks were reduced, if that is known of at least half of them,
/// and of no other.
const Finding* reduction_of(const JobRecord& job, const Finding& parting) {
  if (parting.claim.kind != Kind::gradient) return nullptr;
  const Finding* const found = first_finding(job.results, Predicate::reduce_over_ranks);
  if (!found) return nullptr;
  const bool are_those = std::ranges::all_of(found->tensors, [&](const std::string& tensor) {
    return std::ranges::find(parting.tensors, tensor) != parting.tensors.end();
  });
  return are_those && 2 * found->tensors.size() >= parting.tensors.size() ? found : nullptr;
}

/// Says how, in place of the first tensor, or as the cause.
void add_reduction(const Finding& parting, const Finding& found, JobRecord& job) {
  if (found.kind == FindingKind::gradient_never_synchronised) {
    job.symptom.text = parting_in_words(parting, job.steps) + ": each rank has its own";
    return;
  }
  job.symptom.text += ". Cause: " + reduction_in_words(found);
}

/// Whether ranks made other updates of equal parameters by equal gradients.
bool is_of_update(const JobRecord& job, const Finding& parting) {
  if (parting.claim.phase != Phase::post_step) return false;
  return std::ranges::none_of(job.results, [&](const ClaimResult& result) {
    const bool is_of_gradients = result.claim.predicate == Predicate::agree_across_ranks &&
                                 result.claim.kind == Kind::gradient;
    return is_of_gradients && result.verdict != Verdict::holds;
  });
}

/// "AdamW.lr is 0.001 on rank 0 and 0.002 on rank 1".
std::string setting_in_words(const std::string& name, const std::vector<Setting>& values) {
  std::vector<std::string> holders;
  for (const Setting& one : values) {
    holders.push_back(fmt::format("{} on {}", one.value, ranks_in_words(one.ranks)));
  }
  return fmt::format("{} is {}", name, fmt::join(holders, " and "));
}

/// The hyperparameters that ranks have otherwise from `step` on; empty: there are none.
std::string other_settings(const JobRecord& job, std::int64_t step) {
  std::vector<std::string> differing;
  if (step == job.steps.first) {
    for (const auto& [name, values] : differing_hyperparameters_of(job)) {
      differing.push_back(setting_in_words(name, values));
    }
  }
  for (const SettingApart& one : job.settings_apart) {
    if (one.step == step) differing.push_back(setting_in_words(one.name, one.values));
  }
  return fmt::format("{}", fmt::join(differing, "; "));
}

/// "a gradient scaler skipped the step on rank 1 alone"; empty: all did, or none.
std::string skipped_alone(const JobRecord& job, std::int64_t step) {
  std::vector<int> ranks;
  for (const SkippedSteps& one : job.skipped_by) {
    if (!std::ranges::binary_search(one.steps, step)) continue;
    ranks.insert(ranks.end(), one.ranks.begin(), one.ranks.end());
  }
  std::ranges::sort(ranks);
  const bool is_of_some = !ranks.empty() && static_cast<int>(ranks.size()) < job.world_size;
  return is_of_some
             ? fmt::format("a gradient scaler skipped the step on {} alone", ranks_in_words(ranks))
             : "";
}

/// Adds why ranks made other updates, if that is known.
void add_cause_of_update(const Finding& parting, JobRecord& job) {
  std::string cause = skipped_alone(job, parting.step);
  if (cause.empty()) cause = other_settings(job, parting.step);
  if (!cause.empty()) job.symptom.text += ". Cause: " + cause;
}

}  // namespace

void find_cause(JobRecord& job) {
  for (Unreduced& one : job.unreduced) one.explains = false;
  if (job.symptom.kind != SymptomKind::ranks_differ) return;
  const Finding* const parting = first_parting(job);
  if (!parting) return;
  if (is_of_update(job, *parting)) return add_cause_of_update(*parting, job);
  Unreduced* cause = nullptr;
  for (Unreduced& one : job.unreduced) {
    const bool is_narrower = !cause || one.parameters.size() < cause->parameters.size();
    if (is_narrower && explains(one, *parting)) cause = &one;
  }
  if (!cause) {
    if (const Finding* const found = reduction_of(job, *parting)) {
      add_reduction(*parting, *found, job);
    }
    return;
  }
  cause->explains = true;
  job.symptom.text = fmt::format("{}. Cause: {}", parting_in_words(*parting, job.steps),
                                 cause_in_words(*cause, parting->step));
}

}  // namespace lockstep
