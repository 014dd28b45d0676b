#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/cli/named_job.h"
#include "harness/job/watch_job.h"
#include "harness/job/watch_request.h"
#include "reports/base/exit_status.h"

namespace lockstep {

/// The first difference of a running job from `reference`, for `WatchRequest::compare`. Known ones
/// are none. Throws Error (usage) if its files cannot be read.
std::optional<ForeignDifference> difference_from(const NamedJob& reference,
                                                 const std::optional<KnownFindings>& known,
                                                 const JobRecord& job,
                                                 const std::filesystem::path& folder);

/// Compares the job in `folder`, which has ended, and prints the result on standard error. Without
/// usable files it is undecided. `width`: columns.
ExitStatus compare_with(const NamedJob& reference, const std::string& folder,
                        const std::optional<KnownFindings>& known, std::size_t width);

/// The exit status of a watch with that of a comparison: the worse one, but a status of the job
/// itself stays.
int with_comparison(int exit, ExitStatus comparison);

/// Runs the job of `--twice` again, and prints how far its runs are from each other.
void run_again(WatchRequest request, const WatchedJob& first, std::size_t width);

}  // namespace lockstep
