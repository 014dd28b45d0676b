#include "harness/job/going_on.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/job/attempts.h"
#include "harness/job/stall.h"
#include "harness/record/environment.h"
#include "harness/record/folder_lock.h"
#include "harness/record/new_job.h"
#include "harness/record/watched_progress.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

bool is_judged(const Execution& execution) { return !execution.symptom.text.empty(); }

/// Ranks outlive a watch that was killed.
bool has_live_rank(const JobRecord& job, const fs::path& folder) {
  // The record of a job whose watch was killed is that of its first attempt.
  const int attempts = is_judged(job) ? 1 : count_attempts(job, folder);
  const auto ranks = read_all_progress(folder / folder_of_attempt(job.folder, attempts));
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const auto& rank) { return is_alive(rank.second); });
}

}  // namespace

bool is_judged(const RunRecord& run) {
  const auto judged = [](const Execution& one) { return is_judged(one); };
  return std::all_of(run.cells.begin(), run.cells.end(), judged) &&
         std::all_of(run.jobs.begin(), run.jobs.end(), judged);
}

std::string why_going_on(const RunRecord& run, const fs::path& folder) {
  if (is_locked(folder)) return "it still runs";
  const bool are_left =
      std::ranges::any_of(run.jobs, [](const JobRecord& job) { return !job.left_running.empty(); });
  if (is_judged(run) && !are_left) return "";
  if (run.environment.host != host_name()) {
    return fmt::format("it may still run on {}", run.environment.host);
  }
  const bool lives = std::any_of(run.jobs.begin(), run.jobs.end(),
                                 [&](const JobRecord& job) { return has_live_rank(job, folder); });
  return lives ? "ranks of its job still run" : "";
}

}  // namespace lockstep
