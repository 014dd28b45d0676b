#include "harness/judge/step_coverage.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/evidence/observations.h"

namespace lockstep {
namespace {

/// Whether the last step that was observed of a rank comes before the last one of those with which
/// it went along.
bool ends_in_join(const CellEvidence& cell, const RankExit& end) {
  return std::ranges::any_of(cell.joined, [&end](const JoinedRanks& one) {
    return (one.until == 0 || end.step < one.until) &&
           std::ranges::binary_search(one.ranks, end.rank);
  });
}

/// The first and the last step in which ranks of a job finished; empty if unknown. The data of a
/// rank that had joined ended earlier.
std::optional<std::pair<std::int64_t, std::int64_t>> last_steps(const CellEvidence& cell) {
  std::optional<std::pair<std::int64_t, std::int64_t>> steps;
  for (const RankExit& end : cell.exits) {
    if (!cell.is_job || end.kind != ExitKind::finished || end.step == 0) continue;
    if (ends_in_join(cell, end)) continue;
    if (!steps) steps = {end.step, end.step};
    steps = {std::min(steps->first, end.step), std::max(steps->second, end.step)};
  }
  return steps;
}

}  // namespace

StepCoverage::StepCoverage(const CellEvidence& cell)
    : planned_(cell.steps), first_open_(first_open_step(cell)), last_steps_(last_steps(cell)) {}

void StepCoverage::see(const StepView& step, const Claim& claim) {
  bool is_observed = false;
  for (int rank = 0; rank < step.processes() && !is_observed; ++rank) {
    is_observed =
        step.has_row(rank, [&](const ObservedTensor& one) { return concerns(claim, one); });
  }
  if (!is_observed) without_.insert(step.number());
  note(step.number(), is_observed);
}

void StepCoverage::require_all(ClaimResult& result) const {
  if (result.verdict != Verdict::holds || !result.claim.kind) return;
  std::string lack = lack_of_ends();
  if (lack.empty() && !is_about_the_start(result.claim)) {
    lack = planned_ ? lack_of_plan() : lack_at_end();
  }
  if (lack.empty()) return;
  result.verdict = Verdict::undecided;
  result.reason = lack;
}

void StepCoverage::note(std::int64_t step, bool is_observed) {
  if (is_observed && step == next_) ++next_;
  if (step >= first_open_) return;
  last_ = step;
  if (is_observed) observed_.note_observed(step);
}

/// Ranks with different step counts did not do the same work.
std::string StepCoverage::lack_of_ends() const {
  if (!last_steps_) return "";
  const auto [first, last] = *last_steps_;
  if (first != last) return fmt::format("ranks finished in different steps, {} to {}", first, last);
  return planned_ && last > *planned_
             ? fmt::format("ranks finished in step {}, but only {} steps were planned", last,
                           *planned_)
             : "";
}

std::string StepCoverage::lack_of_plan() const {
  return next_ > *planned_ ? ""
                           : fmt::format("nothing was observed in step {} of {}", next_, *planned_);
}

std::string StepCoverage::lack_at_end() const {
  // A rank may finish in a step that it began but did not train.
  const std::int64_t finished = last_steps_ ? last_steps_->second : 0;
  const std::int64_t end = std::min(std::max(last_, finished - 1), first_open_ - 1);
  if (end <= observed_.last() || !observed_.is_overdue(end)) return "";
  return fmt::format("nothing was observed after step {} of {}", observed_.last(), end);
}

}  // namespace lockstep
