#pragma once

#include <filesystem>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Names the process and cell that wrote a file: "rank 1 of loss-on-unwrapped-module/bypass/w2 with
/// seed 0 and 5 steps". Process 0 of a reference is "the reference", the others are "perturbed
/// reference 1" to 4. It is one line, cut at `kLongestProcessIdentity` bytes. The first line of a
/// journal, the metadata of snapshots and the header of a collective log contain it.
std::string process_identity(const Cell& cell, int process);

/// "rank 1 of job 3f9c2a", for a job trained by another program.
std::string process_identity(const JobRecord& job, int process);

/// Throws Error (usage) if `found`, the process named in a file, is not `expected`.
void require_process(const std::filesystem::path& file, const std::string& expected,
                     const std::string& found);

/// The execution of a cell's processes: "loss-on-unwrapped-module/bypass/w2 with seed 0 and 5
/// steps".
std::string execution_identity(const Cell& cell);

/// "job 3f9c2a".
std::string execution_identity(const JobRecord& job);
std::string execution_identity(const JobPart& part);

}  // namespace lockstep
