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

}  // namespace lockstep
