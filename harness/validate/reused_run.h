#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/validate/code_states.h"
#include "harness/validate/job_execution.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What an earlier run has to be like.
struct ReuseTerms {
  const std::vector<std::string>& command;
  const CodeState& state;
  std::optional<std::int64_t> seed;
  const JobExecution& beside;  ///< of a job that ran just now: versions and devices
};

/// An earlier run that may stand for a new one.
struct ReusedRun {
  std::optional<RunRecord> run;  ///< absent: it may not
  std::string why_not;           ///< empty: it may
};

/// Looks at the run in `folder`: its command, seed, state, the content of each executed file,
/// versions of packages and devices.
ReusedRun reused_run(const std::filesystem::path& folder, const ReuseTerms& terms);

}  // namespace lockstep
