#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/launch/launch.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

/// What the parent opened for its ranks and every rank inherits.
struct RankFiles {
  UniqueFd listener;           ///< bound and listening; rank 0 keeps it
  std::vector<UniqueFd> logs;  ///< one for each process
};

/// Forks the rank of `placement` into a process group of its own; `log` is the index of its log.
/// Returns its pid, or -1 with `errno` set. In the rank itself it does not return: the rank takes
/// its own out of `files`, closes the rest, runs `rank_main` and ends.
pid_t start_rank(RankPlacement placement, std::size_t log, RankFiles& files,
                 const std::function<int(const RankPlacement&)>& rank_main);

}  // namespace lockstep
