#include "reports/formats/job_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/formats/shown_findings.h"
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

const ClaimResult* first_undecided(const JobRecord& job) {
  const auto found = std::find_if(job.results.begin(), job.results.end(), [](const auto& result) {
    return result.verdict == Verdict::undecided;
  });
  return found == job.results.end() ? nullptr : &*found;
}

}  // namespace

std::string title_of(const JobRecord& job) {
  return fmt::format("{}, {} rank{}", job.title, job.world_size, job.world_size == 1 ? "" : "s");
}

std::string heading_of(const JobRecord& job) {
  if (job.not_run) return fmt::format("NOT RUN: {}", job.not_run->reason);
  if (job.world_size == 0) {
    return "NOTHING OBSERVED: no optimizer of torch stepped in a Python process that loads "
           "sitecustomize";
  }
  switch (verdict_of(job)) {
    case Verdict::violated:
      return fmt::format("FAILED: {}", job.faults.empty() ? job.symptom.text : job.faults.front());
    case Verdict::undecided:
      break;
    case Verdict::holds:
      return job.coverage.parameters == 0
                 ? fmt::format("in lockstep: {}", steps_in_words(job.steps))
                 : fmt::format("in lockstep: {}, {}", coverage_in_words(job),
                               steps_in_words(job.steps));
  }
  if (const ClaimResult* const open = first_undecided(job)) {
    return fmt::format("UNDECIDED: {}: {}", sentence(open->claim), open->reason);
  }
  if (job.processes == 0) return "UNDECIDED: it was not run";
  return job.results.empty() ? "UNDECIDED: nothing was claimed"
                             : "UNDECIDED: its ranks were ended before they finished";
}

std::vector<std::string> lines_of(const JobRecord& job, const std::vector<ShownFinding>& findings) {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < job.faults.size(); ++i) lines.push_back(job.faults[i]);
  for (const ShownFinding& shown : findings) lines.push_back(shown.sentence);
  const bool has_other_heading = status_of(job) != ExitStatus::undecided;
  for (const ClaimResult& result : job.results) {
    if (result.verdict != Verdict::undecided) continue;
    if (!has_other_heading && &result == first_undecided(job)) continue;
    lines.push_back(fmt::format("undecided: {}: {}", sentence(result.claim), result.reason));
  }
  if (verdict_of(job) != Verdict::holds && job.coverage.parameters > 0) {
    lines.push_back(coverage_in_words(job));
  }
  for (const NotCompared& one : job.coverage.not_compared) {
    lines.push_back(
        fmt::format("not compared: {} ({}): {}", one.example,
                    one.count == 1 ? "one parameter" : fmt::format("{} such parameters", one.count),
                    one.reason));
  }
  for (const std::string& note : job.notes) lines.push_back("note: " + note);
  return lines;
}

std::vector<std::string> lines_of(const JobRecord& job) {
  return lines_of(job, shown_findings(job));
}

}  // namespace lockstep
