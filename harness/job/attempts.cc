#include "harness/job/attempts.h"

#include <optional>
#include <system_error>

#include "harness/job/job_record.h"
#include "harness/record/environment.h"
#include "harness/record/new_job.h"

namespace lockstep {

namespace fs = std::filesystem;

int count_attempts(const JobRecord& job, const fs::path& folder) {
  int count = 1;
  std::error_code missing;
  while (fs::is_directory(folder / folder_of_attempt(job.folder, count + 1), missing)) ++count;
  return count;
}

void add_attempts(JobRecord& job, const fs::path& folder, const std::optional<JobEnd>& end) {
  if (job.earlier_attempts.empty()) job = with_attempts(job, count_attempts(job, folder));
  for (JobRecord& earlier : job.earlier_attempts) {
    // Nobody knows the status of ranks that were begun again; they have failed, as a rule. Their
    // own seal stays.
    add_ranks(earlier, folder, earlier.manifest ? std::nullopt : std::optional(JobEnd{1}));
  }
  add_ranks(job, folder, end);
}

void take_up(RunRecord& run, const fs::path& folder) {
  const bool is_here = run.environment.host == host_name();  // else its ranks are not seen
  for (JobRecord& job : run.jobs) {
    std::optional<JobEnd> end;
    if (!job.left_running.empty() && is_here) {
      end.emplace();
      end->status = job.command_status.value_or(0);
    } else if (job.processes != 0 || !job.exits.empty()) {
      continue;
    }
    add_attempts(job, folder, end);
    run.environment.torch_version = torch_of(folder / job.folder);
  }
}

}  // namespace lockstep
