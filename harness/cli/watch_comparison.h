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

/// The text and the exit status of a comparison that is stored in the record of its job.
struct ToldComparison {
  std::string text;  ///< for the screen
  ExitStatus status = ExitStatus::undecided;
};

/// Compares a job that has ended with `reference`, and stores that in its record and its folder.
/// Without usable files it is undecided. `shown`: the reference as the user named it; `width`:
/// columns.
ToldComparison compare_with(const NamedJob& reference, const std::string& shown,
                            WatchedJob& watched, const std::optional<KnownFindings>& known,
                            std::size_t width);

/// The exit status of a watch with that of a comparison: the worse one, but a status of the job
/// itself stays.
int with_comparison(int exit, ExitStatus comparison);

/// Runs the job of `--twice` again, prints how far its runs are from each other, and stores that in
/// the record of the first.
void run_again(WatchRequest request, WatchedJob& first, std::size_t width);

}  // namespace lockstep
