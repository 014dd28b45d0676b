#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/launch/launch.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

/// Files that the parent opened and every rank inherits.
struct RankFiles {
  UniqueFd listener;           ///< bound and listening; rank 0 keeps it
  std::vector<UniqueFd> logs;  ///< one per process
};

/// Forks the rank of `placement` into its own process group; `log` is the index of its log. Returns
/// its pid, or -1 with `errno` set. In the rank it does not return: the rank takes its own files
/// from `files`, closes the rest, runs `rank_main` and ends.
pid_t start_rank(RankPlacement placement, std::size_t log, RankFiles& files,
                 const std::function<int(const RankPlacement&)>& rank_main);

}  // namespace lockstep
