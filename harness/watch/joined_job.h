#pragma once

#include <filesystem>
#include <string>

#include "harness/watch/lockstep_watch.h"

namespace lockstep {

/// A job that no process watches: its ranks write its record, too.
struct JoinedJob {
  std::filesystem::path files;  ///< folder of its files, inside that of its run
  std::string id;
};

/// Makes the folder of the job's run, with its record, unless another rank of the job did so.
/// Several ranks may call it at the same time. Ranks that torchrun begins again
/// (`--max-restarts`) get files of their own in it. Throws Error (usage) if the folder cannot be
/// written or has another content, such as an earlier job or one of another number of ranks.
JoinedJob join_job(const lockstep_watch_job& job);

/// Makes the folder of the files of another attempt of a watched job, unless that was done. Throws
/// Error (usage).
void begin_attempt(const std::filesystem::path& files);

/// Lists the files of the job in its record if all of its `world_size` ranks have ended. Each rank
/// calls it at its end. Throws Error (usage).
void seal_if_all_ended(const std::filesystem::path& files, int world_size);

}  // namespace lockstep
