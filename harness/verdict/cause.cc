#include "harness/verdict/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/wrong_values.h"
#include "harness/verdict/other_updates.h"
#include "harness/verdict/parameter_order.h"
#include "harness/verdict/reduction_fold.h"
#include "reports/base/plain_text.h"
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
  const bool is_of_weights = reason == NoReduction::written_after;
  if (parting.claim.kind == Kind::gradient) return !is_of_weights;
  if (parting.kind != FindingKind::initial_weights_differ) return false;
  return is_of_weights || reason == NoReduction::added_after || reason == NoReduction::outside ||
         reason == NoReduction::unwrapped || reason == NoReduction::group_of_one;
}

/// Whether all ranks are known to have called nothing.
bool calls_none(const std::vector<Traffic>& traffic, const JobRecord& job) {
  std::set<int> ranks;
  for (const Traffic& one : traffic) {
    if (one.collectives > 0) return false;
    ranks.insert(one.ranks.begin(), one.ranks.end());
  }
  return static_cast<int>(ranks.size()) >= training_ranks(job);
}

/// Whether no rank called a collective, neither before the optimizer's steps nor inside them.
bool calls_none(const JobRecord& job) {
  return calls_none(job.traffic, job) && calls_none(job.traffic_in_steps, job);
}

/// Whether what ranks contributed to their gradients shows another fault than that no rank's were
/// reduced: then the training reduces by itself. Where there is no wrapper that has to be shown, by
/// that or by the calls.
bool may_be_unreduced(NoReduction reason, const JobRecord& job) {
  const Finding* const found = first_finding(job.results, Predicate::reduce_over_ranks);
  if (!found) return reason != NoReduction::unwrapped || calls_none(job);
  return found->kind == FindingKind::gradient_never_synchronised;
}

bool explains(const Unreduced& one, const Finding& parting) {
  const bool is_over = one.last_step > 0 && one.last_step < parting.step;
  const bool is_then = one.first_step <= parting.step && !is_over;
  if (!is_then || !may_explain(one.reason, parting) || parting.tensors.empty()) return false;
  const std::set<std::string> own(one.parameters.begin(), one.parameters.end());
  const bool are_all_its =
      std::ranges::all_of(parting.tensors, [&](const auto& name) { return own.contains(name); });
  const auto compared = std::min(static_cast<std::int64_t>(own.size()), parting.compared);
  const auto differing = static_cast<std::int64_t>(parting.tensors.size());
  // Without a wrapper the training itself may reduce some.
  const bool are_enough =
      one.reason == NoReduction::unwrapped ? differing == compared : 2 * differing >= compared;
  return are_all_its && are_enough;
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
  if (found->kind == FindingKind::parts_clipped_apart) {
    // With its parts each rank scaled all that it has whole.
    const std::size_t explained = parting.tensors.size() + found->tensors.size();
    const bool are_all = static_cast<std::int64_t>(explained) >= parting.compared;
    return are_all && found->step <= parting.step ? found : nullptr;
  }
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

/// "rank 1 had joined in steps 10 to 12, and its optimizer keeps nothing of these"; empty: no rank
/// had, up to the step before.
std::string joined_before(const JobRecord& job, std::int64_t step) {
  const auto found = std::ranges::find(job.joined, step - 1, &JoinedRanks::until);
  if (found == job.joined.end()) return "";
  const std::int64_t first = found->after + 1;
  const std::string steps = first < found->until
                                ? fmt::format("steps {} to {}", first, found->until)
                                : fmt::format("step {}", first);
  return fmt::format(
      "{} had joined in {} (torch's Join), of which its optimizer keeps nothing, such as momentum",
      ranks_in_words(found->ranks), steps);
}

/// Adds why ranks made other updates, if that is known.
void add_cause_of_update(const Finding& parting, JobRecord& job) {
  std::string cause = skipped_in_words(job, parting.step);
  if (cause.empty()) cause = other_settings_in_words(job, parting.step);
  if (cause.empty()) cause = joined_before(job, parting.step);
  if (!cause.empty()) job.symptom.text += ". Cause: " + cause;
}

/// Adds that ranks called other collectives than each other, where that explains gradients that
/// differ: of parameters without a gradient on some ranks, or of most, since calls that are met by
/// others shift all that follow.
void add_cause_in_calls(const Finding& parting, JobRecord& job) {
  if (!job.joined.empty()) return;  // the last steps of ranks are different ones
  const std::string cause = calls_apart_in_words(job.last_calls, job.world_size);
  if (cause.empty() || parting.claim.kind != Kind::gradient) return;
  const bool are_missing = std::ranges::any_of(job.last_calls, [&](const LastCalls& one) {
    return std::ranges::find_first_of(one.without_gradient, parting.tensors) !=
           one.without_gradient.end();
  });
  const bool are_most = 2 * static_cast<std::int64_t>(parting.tensors.size()) >= parting.compared;
  if (are_missing || are_most) job.symptom.text += ". Cause: " + cause;
}

/// The fact of the fewest parameters that explains gradients which were not reduced; null: there is
/// none.
Unreduced* fact_behind(const Finding& parting, JobRecord& job) {
  Unreduced* cause = nullptr;
  for (Unreduced& one : job.unreduced) {
    const bool is_narrower = !cause || one.parameters.size() < cause->parameters.size();
    const bool is_possible = may_be_unreduced(one.reason, job) && explains(one, parting);
    if (is_narrower && is_possible) cause = &one;
  }
  if (cause) cause->explains = true;
  return cause;
}

/// Of ranks that hold nothing in common, the reductions alone tell that there were none.
void add_cause_of_reduction(JobRecord& job) {
  const Finding* const found = first_finding(job.results, Predicate::reduce_over_ranks);
  if (!found || job.symptom.kind != SymptomKind::agree_but_wrong) return;
  if (found->kind != FindingKind::gradient_never_synchronised) return;
  const Unreduced* const cause = fact_behind(*found, job);
  if (cause) job.symptom.text += ". Cause: " + cause_in_words(*cause, found->step);
}

/// What goes before all other causes; empty: nothing.
std::string fact_before_all(const Finding& parting, const JobRecord& job,
                            const FactsOfRanks& facts) {
  if (std::string order = other_order_in_words(job); !order.empty()) return order;
  if (facts.behind && facts.behind->step == parting.step) return in_words(*facts.behind);
  if (facts.written && facts.written->step == parting.step) return in_words(*facts.written);
  return "";
}

/// "head.bias and 1 more differ before it: initial weights, or parts of the model": ranks that part
/// in the first step are no riddle then. Empty: there are none, or ranks part later.
std::string unshared_in_words(const Finding& parting, const JobRecord& job,
                              const FactsOfRanks& facts) {
  if (facts.unshared.empty() || parting.step != job.steps.first) return "";
  const std::size_t others = facts.unshared.size() - 1;
  return fmt::format("{}{} before it: initial weights, or parts of the model",
                     *facts.unshared.begin(),
                     others > 0 ? fmt::format(" and {} more differ", others) : " differs");
}

/// What happened to gradients after they were reduced; empty: nothing is known.
std::string change_in_words(const Finding& parting, const JobRecord& job) {
  const Finding* const found = reduction_of(job, parting);
  const bool is_change = found && (found->kind == FindingKind::changed_after_reduction ||
                                   found->kind == FindingKind::parts_clipped_apart);
  return is_change ? reduction_in_words(*found) : "";
}

/// What ranks that divide the model need, by what is known of their samples.
std::string need_of_model_parts(const std::vector<std::vector<int>>& groups,
                                const SharedSamples& samples) {
  const std::vector<int> two{groups[0].front(), groups[1].front()};
  const std::vector<int>* const first = group_of(samples, two[0]);
  const std::vector<int>* const second = group_of(samples, two[1]);
  if (!first || !second) return "they need the same samples, or a sum over these ranks";
  return fmt::format("{} saw {} samples, and nothing sums what they computed", ranks_in_words(two),
                     first == second ? "the same" : "other");
}

/// Of ranks that compute together on the same samples, and do not agree on what they share; empty:
/// they are no such ranks.
std::string apart_by_model_in_words(const Finding& parting, const JobRecord& job,
                                    const FactsOfRanks& facts) {
  const bool is_of_it = parting.kind == FindingKind::gradients_differ && !parting.tensors.empty() &&
                        do_divide_model(parting.groups, facts.parts);
  if (!is_of_it) return "";
  std::string why = unshared_in_words(parting, job, facts);
  if (why.empty()) why = change_in_words(parting, job);
  if (why.empty()) why = need_of_model_parts(parting.groups, facts.samples);
  return fmt::format(
      "gradients differ between ranks that divide the model ({} of {}, from step {}): {}",
      parting.tensors.size(), parting.compared, parting.step, why);
}

/// Whether ranks may train apart on purpose: no wrapper was to reduce these gradients.
bool trains_apart(const Finding& parting, const Unreduced* cause) {
  return parting.kind == FindingKind::gradients_differ &&
         (!cause || cause->reason == NoReduction::unwrapped);
}

/// Why gradients differ, or initial weights.
void add_cause_of_gradients(const Finding& parting, std::int64_t agrees_every, JobRecord& job) {
  Unreduced* const cause = fact_behind(parting, job);
  if (agrees_every > 0 && trains_apart(parting, cause)) {
    if (cause) cause->explains = false;
    job.symptom.text = fmt::format(
        "{}; the parameters agree again {}: --agree-every {}, if that is meant",
        parting_in_words(parting, job.steps), every(agrees_every, "step"), agrees_every);
    return;
  }
  if (!cause) {
    if (const Finding* const found = reduction_of(job, parting)) {
      return add_reduction(parting, *found, job);
    }
    return add_cause_in_calls(parting, job);
  }
  job.symptom.text = fmt::format("{}. Cause: {}", parting_in_words(parting, job.steps),
                                 cause_in_words(*cause, parting.step));
}

}  // namespace

void find_cause(JobRecord& job, const FactsOfRanks& facts) {
  for (Unreduced& one : job.unreduced) one.explains = false;
  const Finding* const parting = first_parting(job);
  if (!parting) return add_cause_of_reduction(job);
  const bool is_late = job.symptom.kind == SymptomKind::raised_late;
  if (is_late) return add_cause_in_calls(*parting, job);
  if (job.symptom.kind != SymptomKind::ranks_differ) return;
  const std::string fact = fact_before_all(*parting, job, facts);
  if (!fact.empty()) {
    job.symptom.text += ". Cause: " + fact;
    return;
  }
  if (is_of_update(job, *parting)) return add_cause_of_update(*parting, job);
  if (std::string apart = apart_by_model_in_words(*parting, job, facts); !apart.empty()) {
    job.symptom.text = std::move(apart);
    return;
  }
  const std::string unexplained = job.symptom.text;
  add_cause_of_gradients(*parting, facts.agrees_every, job);
  if (job.symptom.text != unexplained) return;
  const std::string unshared = unshared_in_words(*parting, job, facts);
  if (!unshared.empty()) job.symptom.text += "; " + unshared;
}

}  // namespace lockstep
