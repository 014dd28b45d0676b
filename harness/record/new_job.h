#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Folder of a job's files, inside that of its run.
inline constexpr std::string_view kJobFolder = "job";

/// Bytes of a title that nobody chose.
inline constexpr std::size_t kMostOfATitle = 80;

/// The claims about a job whose ranks need to agree in one of `agree_every` steps; 0: in all.
std::vector<Claim> claims_of_jobs(std::int64_t agree_every);

/// The record of a job that is about to start, with a new id. `title`: its name in sentences.
RunRecord record_of_new_job(const std::string& title, std::int64_t agree_every);

/// The folder of the files of attempt `number`, from 1. `first`: that of the first one.
std::string folder_of_attempt(const std::string& first, int number);

/// The record of an execution of a job's ranks that their launcher begins after it has ended
/// `number` - 1 others, as `torchrun --max-restarts` does. `first`: that of the first one, as it is
/// when it starts.
JobRecord attempt_of(const JobRecord& first, int number);

/// The last of `count` attempts with those before it. `first`: likewise.
JobRecord with_attempts(const JobRecord& first, int count);

}  // namespace lockstep
