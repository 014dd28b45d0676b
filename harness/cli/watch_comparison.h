#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

#include "harness/cli/named_job.h"
#include "harness/job/watch_job.h"
#include "harness/job/watch_request.h"
#include "reports/record/known_findings.h"

namespace lockstep {

/// The first difference of a running job from `reference`, for `WatchRequest::compare`. Known ones
/// are none. Throws Error (usage) if its files cannot be read.
std::optional<ForeignDifference> difference_from(const NamedJob& reference,
                                                 const std::optional<KnownFindings>& known,
                                                 const JobRecord& job,
                                                 const std::filesystem::path& folder);

/// Compares a job that has ended with `reference`, and stores that in its record and its folder.
/// Without usable files it is undecided.
void compare_with(const NamedJob& reference, WatchedJob& watched);

/// Runs of a job after its first one: `--repeat` and `--perturb`.
struct MoreRuns {
  int repeated = 0;
  int perturbed = 0;  ///< with initial weights moved by a unit in the last place
};

/// Runs a job again, prints how far its runs are from each other, and stores that in the record of
/// the first.
void run_again(WatchRequest request, const MoreRuns& more, WatchedJob& first, std::size_t width);

}  // namespace lockstep
