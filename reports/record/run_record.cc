#include "reports/record/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/record/result.h"

namespace lockstep {

namespace {

std::string with_detail(std::string_view text, const RankExit& end) {
  return end.detail.empty() ? std::string(text) : fmt::format("{} ({})", text, end.detail);
}

}  // namespace

std::string end_in_words(const RankExit& end) {
  switch (end.during) {
    case StepPart::forward:
      return fmt::format("in the forward pass of step {}", end.step + 1);
    case StepPart::backward:
      return fmt::format("in the backward pass of step {}", end.step + 1);
    case StepPart::update:
      return fmt::format("in the update of step {}", end.step);
    case StepPart::unknown:
      break;
  }
  if (end.step == 0) return "before the first step";
  return fmt::format("{} step {}", end.is_after_step ? "after" : "in", end.step);
}

std::string exit_in_words(const RankExit& end) {
  switch (end.kind) {
    case ExitKind::finished:
      return "finished";
    case ExitKind::raised:
      return end.place.empty() ? "raised an error" : "raised an error at " + end.place;
    case ExitKind::exited:
      return with_detail(fmt::format("exited with status {}", end.code), end);
    case ExitKind::signalled:
      return with_detail(fmt::format("was killed by signal {}", end.code), end);
    case ExitKind::unfinished:
      if (end.cause == ExitCause::time_limit) return "did not finish within its " + end.detail;
      return with_detail("did not finish", end);
    case ExitKind::unstarted:
      return with_detail("could not be started", end);
  }
  return "";
}

bool all_finished(const std::vector<RankExit>& exits) {
  return std::all_of(exits.begin(), exits.end(),
                     [](const RankExit& end) { return end.kind == ExitKind::finished; });
}

bool Table::Entry::is_measured() const {
  return std::any_of(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
}

bool is_as_promised(const Check& check) {
  return check.result == Check::Result::found || check.result == Check::Result::as_promised;
}

bool has_joined(const std::vector<JoinedRanks>& joined, int rank, std::int64_t step) {
  return std::ranges::any_of(joined, [&](const JoinedRanks& one) {
    const bool is_then = one.after < step && (one.until == 0 || step <= one.until);
    return is_then && std::ranges::binary_search(one.ranks, rank);
  });
}

const JobPart* part_with(const JobRecord& job, int rank) {
  const auto part = std::find_if(job.parts.begin(), job.parts.end(), [&](const JobPart& one) {
    return std::find(one.ranks.begin(), one.ranks.end(), rank) != one.ranks.end();
  });
  return part == job.parts.end() ? nullptr : &*part;
}

PlannedCounts counts_of(const RunRecord& run) {
  PlannedCounts counts;
  counts.cells = static_cast<std::int64_t>(run.cells.size());
  counts.jobs = static_cast<std::int64_t>(run.jobs.size());
  for (const CellRecord& cell : run.cells) {
    counts.claims += static_cast<std::int64_t>(cell.claims.size());
  }
  for_each_attempt(run.jobs, [&](const JobRecord& job) {
    counts.claims += static_cast<std::int64_t>(job.claims.size());
  });
  return counts;
}

namespace {

ExitStatus status_of(CellVerdict verdict) {
  switch (verdict) {
    case CellVerdict::as_expected:
      return ExitStatus::as_expected;
    case CellVerdict::not_applicable:
      return ExitStatus::not_applicable;
    case CellVerdict::undecided:
      return ExitStatus::undecided;
    case CellVerdict::missed:
    case CellVerdict::false_alarm:
      break;
  }
  return ExitStatus::failed;
}

}  // namespace

int training_ranks(const JobRecord& job) {
  const int training = job.world_size - static_cast<int>(job.bystanders.size());
  return training > 1 ? training : job.world_size;
}

bool is_to_agree(const JobRecord& job) {
  return job.demands.expected.value_or(ExpectedOutcome::agrees) == ExpectedOutcome::agrees;
}

bool is_recording(const JobRecord& job) {
  const Coverage& coverage = job.coverage;
  const bool are_alone = job.world_size == 1 || (coverage.declared == coverage.parameters &&
                                                 coverage.ranks == training_ranks(job));
  const bool is_sound = job.faults.empty() && job.unsealed.empty() && !job.exits.empty() &&
                        all_finished(job.exits) && !job.results.empty();
  const bool is_enough = !job.demands.expected && !job.demands.is_strict;
  return coverage.parameters > 0 && are_alone && is_sound && is_enough && is_incomparable(job) &&
         std::all_of(job.results.begin(), job.results.end(), [](const ClaimResult& result) {
           const bool is_empty = is_about_agreement(result.claim) && result.comparisons == 0;
           return is_empty || result.verdict == Verdict::holds;
         });
}

std::string unmet_demand(const JobRecord& job) {
  const JobDemands& demands = job.demands;
  const Coverage& coverage = job.coverage;
  if (demands.is_strict && coverage.compared != coverage.parameters) {
    return fmt::format("with --strict: {} of {} parameters were compared", coverage.compared,
                       coverage.parameters);
  }
  if (demands.is_strict && !coverage.until.empty()) {
    return fmt::format("with --strict: {} was compared until step {} of {}",
                       coverage.until[0].example, coverage.until[0].step, job.steps.last);
  }
  if (demands.expected != ExpectedOutcome::agrees) return "";
  if (job.steps.count < demands.min_steps) {
    return fmt::format("--min-steps asks for {}", demands.min_steps);
  }
  const int status = job.command_status.value_or(0);
  return status == 0 ? "" : fmt::format("the job's command ended with status {}", status);
}

Verdict verdict_of(const JobRecord& job) {
  if (is_recording(job)) return Verdict::holds;
  const bool is_open = job.symptom.kind == SymptomKind::undecided;
  Verdict verdict = job.symptom.kind == SymptomKind::right ? Verdict::holds
                    : is_open                              ? Verdict::undecided
                                                           : Verdict::violated;
  if (!job.faults.empty()) verdict = Verdict::violated;
  const bool is_whole = job.unsealed.empty() && !job.results.empty() && all_finished(job.exits) &&
                        unmet_demand(job).empty();
  if (!is_whole) verdict = merge(verdict, Verdict::undecided);
  for (const ClaimResult& result : job.results) verdict = merge(verdict, result.verdict);
  return verdict;
}

bool is_incomparable(const JobRecord& job) {
  return job.coverage.unshared == 0 &&
         std::none_of(job.results.begin(), job.results.end(), [](const ClaimResult& result) {
           return is_about_agreement(result.claim) && result.comparisons > 0;
         });
}

namespace {

/// Whether an error ended the job as expected. Another error, or none, is as sure.
ExitStatus status_of_error(const JobRecord& job) {
  if (job.has_expected_error) return ExitStatus::as_expected;
  const bool has_error = !job.command_error.empty() ||
                         std::any_of(job.exits.begin(), job.exits.end(), [](const RankExit& end) {
                           return end.kind == ExitKind::raised && end.cause != ExitCause::lost_peer;
                         });
  const bool has_ended = all_finished(job.exits) && job.command_status == 0 && job.unsealed.empty();
  return has_error || has_ended ? ExitStatus::failed : ExitStatus::undecided;
}

/// Whether the job diverged, hung or became not finite as `expected`, which is not that it agrees.
ExitStatus status_of_fault(const JobRecord& job, ExpectedOutcome expected) {
  if (expected == ExpectedOutcome::raises) return status_of_error(job);
  const bool is_there = expected == ExpectedOutcome::hangs      ? has_hung(job)
                        : expected == ExpectedOutcome::diverges ? first_difference(job) != nullptr
                                                                : first_not_finite(job) != nullptr;
  if (is_there) return ExitStatus::as_expected;
  if (is_incomparable(job)) return ExitStatus::not_applicable;
  // A hang is missing as soon as the job ended, whatever its ranks did; a fault of values, if none
  // is there.
  const Verdict verdict = verdict_of(job);
  const bool is_missing = expected == ExpectedOutcome::hangs ? verdict != Verdict::undecided
                                                             : verdict == Verdict::holds;
  return is_missing && job.command_status.value_or(0) == 0 ? ExitStatus::failed
                                                           : ExitStatus::undecided;
}

}  // namespace

ExitStatus status_of(const JobRecord& job) {
  if (!is_to_agree(job)) return status_of_fault(job, *job.demands.expected);
  const Verdict verdict = verdict_of(job);
  const bool has_ended =
      job.exits.empty() ? job.command_status == 0 && job.unsealed.empty() : all_finished(job.exits);
  const bool has_run = !job.not_run && has_ended && !job.demands.is_strict;
  const bool is_empty = verdict == Verdict::undecided && has_run && is_incomparable(job);
  return is_empty ? ExitStatus::not_applicable : status_of(verdict);
}

ExitStatus exit_status(const RunRecord& run) {
  ExitStatus status = ExitStatus::as_expected;
  bool applies = false;
  for (const CellRecord& cell : run.cells) {
    if (cell.verdict == CellVerdict::not_applicable) continue;
    applies = true;
    status = worse(status, status_of(cell.verdict));
  }
  for (const JobRecord& job : run.jobs) {
    applies = true;
    status = worse(status, status_of(job));
  }
  if (!run.comparisons.empty()) {
    applies = true;
    status = worse(status, status_of(run.comparisons));
  }
  return applies ? status : ExitStatus::not_applicable;
}

}  // namespace lockstep
