#pragma once

#include "harness/job/job_process.h"
#include "harness/job/watch_request.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A watched job after its end.
struct WatchedJob {
  std::string folder;  ///< of the run, as it was asked for
  RunRecord run;       ///< judged and saved
  JobEnd end;          ///< of its command
};

/// Runs the command of `request` with its ranks observed, then judges and saves what was seen.
/// `version`: of this program. Throws Error (usage) if the command cannot be started or the folder
/// cannot be written.
WatchedJob watch_job(const WatchRequest& request, const std::string& version);

}  // namespace lockstep
