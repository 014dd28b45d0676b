#include "reports/formats/job_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/formats/alike_scenario.h"
#include "reports/formats/shown_findings.h"
#include "reports/record/differing_settings.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"

namespace lockstep {
namespace {

std::string steps_in_words(const ObservedSteps& steps) {
  if (steps.count == 0) return "no step was observed";
  if (steps.count == 1) return fmt::format("1 step, {}", steps.first);
  return fmt::format("{} steps, {} to {}", steps.count, steps.first, steps.last);
}

/// "118 of 120 parameters compared on 8 of 8 ranks"
std::string coverage_in_words(const JobRecord& job) {
  const Coverage& coverage = job.coverage;
  return fmt::format("{} of {} parameters compared on {} of {} ranks", coverage.compared,
                     coverage.parameters, coverage.ranks, job.world_size);
}

/// "3, 5, 8 and 12 more".
std::string shortened(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(steps.size(), kMost);
  std::string text =
      fmt::format("{}", fmt::join(steps.begin(), steps.begin() + std::ptrdiff_t(shown), ", "));
  if (steps.size() > shown) text += fmt::format(" and {} more", steps.size() - shown);
  return text;
}

/// The ranks that made so many calls in a step, by size of the group. Empty: they were not counted.
std::map<int, std::map<std::int64_t, std::vector<int>>> calls_in(const JobRecord& job,
                                                                 std::int64_t step) {
  std::map<int, std::map<std::int64_t, std::vector<int>>> calls;
  for (const Traffic& one : job.traffic) {
    if (step < one.first_step || step > one.last_step) continue;
    std::vector<int>& ranks = calls[one.group_size][one.collectives];
    ranks.insert(ranks.end(), one.ranks.begin(), one.ranks.end());
    std::ranges::sort(ranks);
  }
  return calls;
}

/// "2", or "1 (rank 0) and 2 (rank 1)".
std::string counts_in_words(const std::map<std::int64_t, std::vector<int>>& counts) {
  if (counts.size() == 1) return std::to_string(counts.begin()->first);
  std::vector<std::string> each;
  for (const auto& [calls, ranks] : counts) {
    each.push_back(fmt::format("{} ({})", calls, ranks_in_words(ranks)));
  }
  return fmt::format("{}", fmt::join(each, " and "));
}

/// Who talked before the update of a step: "no collective was called before the update of step 4".
/// The calls before the first one include those of the job's start, so the second one replaces it.
std::string traffic_in_words(const JobRecord& job, std::int64_t step) {
  const bool is_first = std::none_of(job.traffic.begin(), job.traffic.end(),
                                     [&](const Traffic& one) { return one.first_step < step; });
  if (is_first && !calls_in(job, step + 1).empty()) ++step;
  const auto calls = calls_in(job, step);
  if (calls.empty()) return "collectives were not counted";
  std::vector<std::string> groups;
  for (const auto& [size, counts] : calls) {
    if (counts.rbegin()->first == 0) continue;
    groups.push_back(
        fmt::format("{} over {} of {} ranks", counts_in_words(counts), size, job.world_size));
  }
  return groups.empty() ? fmt::format("no collective was called before the update of step {}", step)
                        : fmt::format("collectives before the update of step {}: {}", step,
                                      fmt::join(groups, ", "));
}

/// "0.001 on ranks 0,2, 0.002 on rank 1".
std::string holders_in_words(const std::vector<Setting>& values) {
  std::vector<std::string> holders;
  for (const Setting& one : values) {
    holders.push_back(fmt::format("{} on rank{} {}", one.value, one.ranks.size() == 1 ? "" : "s",
                                  fmt::join(one.ranks, ",")));
  }
  return fmt::format("{}", fmt::join(holders, ", "));
}

/// Settings with several values: "ranks differ in AdamW.lr: 0.001 on ranks 0,2, 0.002 on rank 1".
std::vector<std::string> differing_settings_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  for (const auto& [name, values] : differing_settings(job)) {
    lines.push_back(fmt::format("ranks differ in {}: {}", name, holders_in_words(values)));
  }
  for (const SettingApart& one : job.settings_apart) {
    lines.push_back(fmt::format("ranks differ in {} from step {} on: {}", one.name, one.step,
                                holders_in_words(one.values)));
  }
  return lines;
}

/// Parameters that no wrapper reduces, where they do not explain the first difference: "2
/// parameters, extra.bias and 1 more: they are in no module that DDP wraps".
std::vector<std::string> unreduced_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  if (verdict_of(job) == Verdict::holds) return lines;
  for (const Unreduced& one : job.unreduced) {
    // Where there is no wrapper the training may reduce by itself, as many do.
    // What was written may be the same on all ranks.
    const bool may_be_right =
        one.reason == NoReduction::unwrapped || one.reason == NoReduction::written_after;
    if (one.explains || may_be_right || one.parameters.empty()) continue;
    lines.push_back(fmt::format("at the same time, {}: {}", listed(one.parameters, 1),
                                cause_in_words(one, one.first_step)));
  }
  return lines;
}

/// "compared until step 4 of 10, then observed on no rank: the gradients of 0.bias and 1 more".
std::vector<std::string> ended_in_words(const JobRecord& job) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> lines;
  for (const ComparedUntil& one : job.coverage.until) {
    if (lines.size() == kMost) {
      lines.push_back(
          fmt::format("and so until {} other steps", job.coverage.until.size() - kMost));
      break;
    }
    const std::string more = one.count > 1 ? fmt::format(" and {} more", one.count - 1) : "";
    const std::string what = one.kind != Kind::gradient ? ""
                             : one.count == 1           ? "the gradient of "
                                                        : "the gradients of ";
    lines.push_back(fmt::format("compared until step {} of {}, then observed on no rank: {}{}{}",
                                one.step, job.steps.last, what, one.example, more));
  }
  return lines;
}

bool have_all_skipped_the_same(const JobRecord& job) {
  const auto ranks = static_cast<std::size_t>(job.world_size) - job.elsewhere.size();
  return job.skipped_by.empty() ||
         (job.skipped_by.size() == 1 && job.skipped_by[0].ranks.size() >= ranks);
}

/// "a gradient scaler skipped a step: 3", or who skipped it: "rank 1 alone skipped step 3".
std::vector<std::string> skips_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  if (job.skipped_steps.empty()) return lines;
  if (have_all_skipped_the_same(job)) {
    lines.push_back(fmt::format("a gradient scaler skipped {}: {}",
                                job.skipped_steps.size() == 1
                                    ? "a step"
                                    : fmt::format("{} steps", job.skipped_steps.size()),
                                shortened(job.skipped_steps)));
    return lines;
  }
  for (const StepsOfRanks& one : job.skipped_by) {
    const bool is_alone = job.skipped_by.size() == 1 && one.ranks.size() == 1;
    lines.push_back(fmt::format("{}{} skipped step{} {} (gradient scaler)",
                                ranks_in_words(one.ranks), is_alone ? " alone" : "",
                                one.steps.size() == 1 ? "" : "s", shortened(one.steps)));
  }
  return lines;
}

/// "gradients of 6 tensors differ before the optimizer's step, and the parameters agree after it:
/// ranks communicate inside the step (6 collectives over 2 ranks)".
std::string reduced_in_words(const JobRecord& job, const ClaimResult& result) {
  std::string text = fmt::format(
      "gradients of {} differ before the optimizer's step, and the parameters agree after it: "
      "ranks communicate inside the step",
      counted(result.reduced_in_step, "tensor"));
  const auto calls = std::ranges::find_if(
      job.traffic_in_steps, [](const Traffic& traffic) { return traffic.collectives > 0; });
  if (calls == job.traffic_in_steps.end()) return text;
  return text + fmt::format(" ({} over {})", counted(calls->collectives, "collective"),
                            counted(calls->group_size, "rank"));
}

/// Why nothing was compared between ranks, and for which comparison a recording is.
std::string recording_in_words(const JobRecord& job) {
  return std::string(job.world_size == 1
                         ? "a single rank"
                         : "each part of the parameters is on one rank, as declared") +
         ": nothing to compare between ranks, but a reference for other jobs";
}

/// The kind of the earliest difference, else of the first finding. Empty: there is none.
std::string kind_of_first(const JobRecord& job) {
  const Finding* first = first_fault_of_values(job);
  for (const ClaimResult& result : job.results) {
    if (!first && !result.findings.empty()) first = &result.findings.front();
  }
  return first ? std::string(name(first->kind)) : "";
}

/// That nothing was compared has a reason, if not all ranks finished.
const ClaimResult* first_undecided(const JobRecord& job) {
  const ClaimResult* first = nullptr;
  for (const ClaimResult& result : job.results) {
    if (result.verdict != Verdict::undecided) continue;
    const bool is_reason =
        first && first->comparisons == 0 && result.claim.predicate == Predicate::ranks_finish;
    if (!first || is_reason) first = &result;
  }
  return first;
}

/// Of a job whose ranks agreed as far as it got: "in lockstep for 12 steps, 1 to 12, but ".
std::string agreement_so_far(const JobRecord& job) {
  std::int64_t comparisons = 0;
  for (const ClaimResult& result : job.results) {
    if (!is_about_agreement(result.claim)) continue;
    if (result.verdict != Verdict::holds) return "";
    comparisons += result.comparisons;
  }
  if (comparisons == 0) return "";
  return fmt::format("in lockstep for {}, but ", steps_in_words(job.steps));
}

/// Whether its ranks agreed, and an interruption is all that kept them from finishing.
bool was_only_interrupted(const JobRecord& job) {
  const bool has_interruption = std::ranges::any_of(job.exits, [](const RankExit& end) {
    return end.cause == ExitCause::interrupted && end.detail.empty();
  });
  const bool has_other_end = std::ranges::any_of(job.exits, [](const RankExit& end) {
    return end.kind != ExitKind::finished &&
           (end.cause != ExitCause::interrupted || !end.detail.empty());
  });
  return has_interruption && !has_other_end && job.unsealed.empty() && job.left_running.empty() &&
         std::ranges::none_of(job.results, [](const ClaimResult& result) {
           return is_about_agreement(result.claim) && result.verdict != Verdict::holds;
         });
}

std::string why_undecided(const JobRecord& job) {
  if (!job.unsealed.empty()) return job.unsealed;
  if (const ClaimResult* const open = first_undecided(job)) {
    return fmt::format("{}: {}", sentence(open->claim), open->reason);
  }
  if (std::string unmet = unmet_demand(job); !unmet.empty()) return unmet;
  if (job.processes == 0) return "it was not run";
  return job.results.empty() ? "nothing was claimed" : "its ranks were ended before they finished";
}

/// What a command did, of which nothing was observed.
std::string_view reach_in_words(Reach reach) {
  switch (reach) {
    case Reach::no_python:
      return "no Python of the command loaded the hook; `python -I`, -E and -S skip it, and ssh or "
             "a "
             "container may drop PYTHONPATH";
    case Reach::no_torch:
      return "no Python of the command imported torch";
    case Reach::no_step:
      return "torch was imported, but no step of a torch.optim.Optimizer was observed; one of your "
             "own has to be derived from it, and --start, --until and --off leave steps out";
    case Reach::unknown:
      break;
  }
  return "no optimizer of torch stepped in a Python process that loads the hook";
}

std::string nothing_observed(const JobRecord& job) {
  constexpr std::size_t kMostOfAnError = 200;
  constexpr int kOfSignals = 128;
  const int status = job.command_status.value_or(0);
  if (status == 0) return fmt::format("NOTHING OBSERVED: {}", reach_in_words(job.reach));
  std::string text =
      fmt::format("NOTHING OBSERVED: the command {} before an optimizer of torch stepped",
                  status > kOfSignals ? fmt::format("was ended by signal {}", status - kOfSignals)
                                      : fmt::format("ended with status {}", status));
  if (!job.command_error.empty()) {
    return text + ": " + beginning(job.command_error, kMostOfAnError);
  }
  // A Python that a signal ended may not have come to what it was started for.
  const bool is_telling =
      status <= kOfSignals && (job.reach == Reach::no_python || job.reach == Reach::no_torch);
  return is_telling ? fmt::format("{}: {}", text, reach_in_words(job.reach)) : text;
}

/// Whether ranks met and finished, and no step of them was observed.
bool has_no_step(const JobRecord& job) {
  return job.steps.count == 0 && all_finished(job.exits) && !job.exits.empty() &&
         job.unsealed.empty();
}

bool is_named_by_its_ending(const JobRecord& job) {
  const SymptomKind kind = job.symptom.kind;
  return job.faults.empty() && (kind == SymptomKind::hung || kind == SymptomKind::killed ||
                                kind == SymptomKind::raised || kind == SymptomKind::raised_late);
}

/// "HANG in step 3: ..." of "hang in step 3: ...".
std::string with_capitals(std::string text) {
  for (char& c : text) {
    if (c < 'a' || c > 'z') break;
    c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

std::string violation_in_words(const JobRecord& job) {
  if (is_named_by_its_ending(job)) return with_capitals(job.symptom.text);
  return fmt::format("FAILED: {}", job.faults.empty() ? job.symptom.text : job.faults.front());
}

/// "in lockstep"; of ranks that need to agree now and then: "in lockstep every 4 steps".
std::string lockstep_in_words(const JobRecord& job) {
  return job.agree_every > 0 ? fmt::format("in lockstep {}", every(job.agree_every, "step"))
                             : "in lockstep";
}

/// Whether its ranks agree, whatever was expected.
std::string verdict_in_words(const JobRecord& job) {
  switch (verdict_of(job)) {
    case Verdict::violated:
      return violation_in_words(job);
    case Verdict::undecided:
      break;
    case Verdict::holds:
      if (is_recording(job)) {
        return fmt::format("recorded: {} of {}", counted(job.steps.count, "step"),
                           counted(job.coverage.parameters, "parameter"));
      }
      return job.coverage.parameters == 0
                 ? fmt::format("{}: {}", lockstep_in_words(job), steps_in_words(job.steps))
                 : fmt::format("{}: {}, {}", lockstep_in_words(job), coverage_in_words(job),
                               steps_in_words(job.steps));
  }
  if (was_only_interrupted(job) && job.steps.count > 0) {
    return fmt::format("INTERRUPTED after step {}; in lockstep until then", job.steps.last);
  }
  if (has_no_step(job)) {
    return fmt::format("NOTHING OBSERVED on {}: {}", counted(job.world_size, "rank"),
                       reach_in_words(Reach::no_step));
  }
  return "UNDECIDED: " + agreement_so_far(job) + why_undecided(job);
}

/// "ranks differ from step 1 on" of "FAILED: ranks differ from step 1 on"; "interrupted after ...".
std::string without_verdict(const JobRecord& job) {
  std::string words = verdict_in_words(job);
  if (verdict_of(job) == Verdict::violated && is_named_by_its_ending(job)) return job.symptom.text;
  constexpr std::string_view kInterrupted = "INTERRUPTED ";
  if (words.starts_with(kInterrupted)) return "interrupted " + words.substr(kInterrupted.size());
  for (const std::string_view verdict : {"FAILED: ", "UNDECIDED: "}) {
    if (words.starts_with(verdict)) return words.substr(verdict.size());
  }
  return words;
}

/// What the heading, which has the first fault, leaves out.
std::vector<std::string> findings_in_words(const JobRecord& job,
                                           const std::vector<ShownFinding>& findings) {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < job.faults.size(); ++i) lines.push_back(job.faults[i]);
  for (const ShownFinding& shown : findings) lines.push_back(shown.sentence);
  if (const std::string kind = kind_of_first(job); !kind.empty()) {
    lines.push_back(fmt::format("what it means: lockstep explain {}", kind));
  }
  if (const std::string alike = alike_in_words(job); !alike.empty()) lines.push_back(alike);
  return lines;
}

/// Whether each parameter is divided, so that no rank has a copy of what another one holds: the
/// line of those that were not compared says so.
bool holds_parts_alone(const JobRecord& job) {
  return job.coverage.parameters > 0 && job.coverage.declared == job.coverage.parameters &&
         is_incomparable(job);
}

/// Those that the heading does not name.
std::vector<std::string> other_undecided_claims(const JobRecord& job) {
  std::vector<std::string> lines;
  if (is_recording(job)) return lines;
  const ClaimResult* const named =
      verdict_of(job) == Verdict::undecided ? first_undecided(job) : nullptr;
  for (const ClaimResult& result : job.results) {
    if (result.verdict != Verdict::undecided || &result == named) continue;
    if (is_about_agreement(result.claim) && holds_parts_alone(job)) continue;
    lines.push_back(fmt::format("undecided: {}: {}", sentence(result.claim), result.reason));
  }
  return lines;
}

/// In what sense claims hold that do not hold bit for bit, or not at every point of a step.
std::vector<std::string> reservations_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  for (const ClaimResult& result : job.results) {
    if (result.verdict != Verdict::holds || !result.margin || !result.tolerance) continue;
    lines.push_back(fmt::format(
        "{} up to rounding, as of {}: apart by at most {:.2g} of their norm, where {:.2g} is "
        "rounding",
        sentence(result.claim),
        result.claim.phase == Phase::pre_forward ? "a perturbation that was taken back"
                                                 : "replicas that each rank computes for itself",
        *result.margin * *result.tolerance, *result.tolerance));
  }
  for (const ClaimResult& result : job.results) {
    const bool is_told = result.reduced_in_step > 0 && result.verdict == Verdict::holds;
    if (is_told) lines.push_back(reduced_in_words(job, result));
  }
  return lines;
}

/// Of which parameters values were compared, and why those of others were not.
std::vector<std::string> compared_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  if (verdict_of(job) != Verdict::holds && job.coverage.parameters > 0) {
    lines.push_back(coverage_in_words(job));
  }
  if (is_recording(job)) {
    lines.push_back(recording_in_words(job));
    return lines;
  }
  for (const NotCompared& one : job.coverage.not_compared) {
    const std::string_view what = name(one.kind);
    lines.push_back(fmt::format(
        "not compared: {} ({}): {}", one.example,
        one.count == 1 ? fmt::format("one {}", what) : fmt::format("{} such {}s", one.count, what),
        one.reason));
  }
  return lines;
}

/// Steps without rows, and updates that were not seen.
std::vector<std::string> unobserved_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  if (job.steps.thinned > 0) {
    lines.push_back(
        fmt::format("the rows of {} steps in which all ranks agreed were removed: --history",
                    job.steps.thinned));
  }
  if (job.thinned_after > 0) {
    lines.push_back(fmt::format(
        "after step {} one of 100 steps was observed: --history was used up", job.thinned_after));
  }
  if (job.captured_updates > 0) {
    lines.push_back(
        fmt::format("{} captured in a CUDA graph: what replays of it changed was not observed",
                    job.captured_updates == 1
                        ? "one step of an optimizer was"
                        : fmt::format("{} steps of optimizers were", job.captured_updates)));
  }
  return lines;
}

void add(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

/// "attempt 1 of 2 (1 step, 1): FAILED: rank 1 raised an error in step 2: ...".
std::vector<std::string> attempts_in_words(const JobRecord& job) {
  std::vector<std::string> lines;
  const std::vector<JobRecord>& earlier = job.earlier_attempts;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    std::string line = fmt::format("attempt {} of {} ({}): {}", i + 1, earlier.size() + 1,
                                   steps_in_words(earlier[i].steps), heading_of(earlier[i]));
    const Finding* const difference = first_difference(earlier[i]);
    if (difference && earlier[i].symptom.tensor.empty()) {  // its end is told, not its values
      line +=
          fmt::format("; ranks differ from step {} on: {}", difference->step, difference->tensor);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::string title_of(const JobRecord& job) {
  return fmt::format("{}, {}", job.title, counted(job.world_size, "rank"));
}

std::string heading_of(const JobRecord& job) {
  if (job.not_run) return fmt::format("NOT RUN: {}", job.not_run->reason);
  if (job.has_expected_error && !job.command_error.empty()) {  // no rank tells it
    return fmt::format("as expected ({}): {}", name(ExpectedOutcome::raises), job.command_error);
  }
  if (job.world_size == 0) {
    const bool is_lost = job.command_status && !job.unsealed.empty();
    if (is_lost) return "UNDECIDED: " + job.unsealed;
    const bool has_no_error =
        job.demands.expected == ExpectedOutcome::raises && status_of(job) == ExitStatus::failed;
    return (has_no_error ? "NOT AS EXPECTED (raises): " : "") + nothing_observed(job);
  }
  if (is_to_agree(job)) return verdict_in_words(job);
  const std::string_view expected = name(*job.demands.expected);
  switch (status_of(job)) {
    case ExitStatus::as_expected:
      return fmt::format("as expected ({}): {}", expected, job.symptom.text);
    case ExitStatus::failed:
      return fmt::format("NOT AS EXPECTED ({}): {}", expected, without_verdict(job));
    default:
      return fmt::format("UNDECIDED (expected: {}): {}", expected, without_verdict(job));
  }
}

std::vector<std::string> lines_of(const JobRecord& job, const std::vector<ShownFinding>& findings) {
  std::vector<std::string> lines = findings_in_words(job, findings);
  add(lines, attempts_in_words(job));
  add(lines, other_undecided_claims(job));
  add(lines, reservations_in_words(job));
  add(lines, compared_in_words(job));
  add(lines, ended_in_words(job));
  if (job.command_status.value_or(0) != 0 && all_finished(job.exits) && !job.exits.empty()) {
    lines.push_back(fmt::format("all ranks finished, but the command ended with status {}",
                                *job.command_status));
  }
  if (const Finding* const first = first_difference(job)) {
    lines.push_back(traffic_in_words(job, first->step));
  }
  add(lines, unreduced_in_words(job));
  add(lines, unobserved_in_words(job));
  add(lines, skips_in_words(job));
  add(lines, differing_settings_in_words(job));
  for (const std::string& note : job.notes) lines.push_back("note: " + note);
  return lines;
}

std::vector<std::string> lines_of(const JobRecord& job) {
  return lines_of(job, shown_findings(job));
}

}  // namespace lockstep
