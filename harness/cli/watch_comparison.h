#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

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
/// Without usable files it is undecided. `shown`: the reference as the user named it; `width`:
/// columns. Returns a text for the screen.
std::string compare_with(const NamedJob& reference, const std::string& shown, WatchedJob& watched,
                         std::size_t width);

/// Runs the job of `--twice` again, prints how far its runs are from each other, and stores that in
/// the record of the first.
void run_again(WatchRequest request, WatchedJob& first, std::size_t width);

}  // namespace lockstep
