#pragma once

#include <filesystem>
#include <string>

#include "harness/job/job_process.h"
#include "harness/job/watch_request.h"
#include "reports/base/exit_status.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The record of a job that is about to start, with a new id.
RunRecord record_of_job(const WatchRequest& request);

/// Adds what its ranks left in the job's folder: their number, how each ended, and the list of
/// their files. `end`: of the job's command; absent: it still runs, or nobody saw it end. Then, and
/// if the list cannot be written, the job is unsealed, unless its ranks sealed it. Ranks on other
/// machines are listed.
void add_ranks(JobRecord& job, const std::filesystem::path& folder,
               const std::optional<JobEnd>& end);

/// The torch of the ranks whose files are in a folder; empty: unknown.
std::string torch_of(const std::filesystem::path& files);

/// How `lockstep watch` exits after a judged job: like the job if it failed, else by its verdict.
/// `comparisons`: with a reference, which count like the verdict.
/// The ranks of one machine of several decide nothing if they agree: 0. With `--expect`, only an
/// interruption counts before whether the job was as expected.
int exit_of(const JobRecord& job, const JobEnd& end,
            const std::vector<Comparison>& comparisons = {});

}  // namespace lockstep
