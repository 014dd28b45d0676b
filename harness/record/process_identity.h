#pragma once

#include <filesystem>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Says which process of which cell wrote a file: "rank 1 of loss-on-unwrapped-module/bypass/w2
/// with seed 0 and 5 steps". Process 0 of a reference is "the reference", the others are
/// "perturbed reference 1" to 4. One line of at most `kLongestProcessIdentity` bytes, cut where it
/// is longer; it is in the first line of a journal, in the metadata of snapshots and in the
/// header of a collective log.
std::string process_identity(const Cell& cell, int process);

/// "rank 1 of job 3f9c2a", whose ranks another program trained.
std::string process_identity(const JobRecord& job, int process);

/// Throws Error (usage) where `found`, the process that a file names, is not `expected`.
void require_process(const std::filesystem::path& file, const std::string& expected,
                     const std::string& found);

/// What the processes of a cell ran: "loss-on-unwrapped-module/bypass/w2 with seed 0 and 5 steps".
std::string execution_identity(const Cell& cell);

/// "job 3f9c2a".
std::string execution_identity(const JobRecord& job);

}  // namespace lockstep
