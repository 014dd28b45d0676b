#pragma once

#include <filesystem>
#include <optional>

#include "harness/job/job_process.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// How often a launcher has begun the ranks of a job whose files are in a run's folder, as
/// `torchrun --max-restarts` does; at least 1. `job`: as its record is when it starts.
int count_attempts(const JobRecord& job, const std::filesystem::path& folder);

/// Makes the last attempt the job, lists those before it, and adds the ranks of each. `job`:
/// likewise; `end`: as for `add_ranks`.
void add_attempts(JobRecord& job, const std::filesystem::path& folder,
                  const std::optional<JobEnd>& end);

/// Adds its ranks to a job whose record was saved at its start only: its watch still runs, ended
/// without saving another one, or never was. The same for one whose command ended before its ranks;
/// once none of them runs any more, its files are listed.
void take_up(RunRecord& run, const std::filesystem::path& folder);

}  // namespace lockstep
