#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/watched_progress.h"
#include "reports/base/names.h"
#include "reports/record/execution.h"

namespace lockstep {

/// A rank of a job that makes no progress.
///   answered  its hook said where it is
///   silent    its process lives and its hook did not answer: native code holds the interpreter
///   stopped   its process was stopped by a signal
///   gone      its process ended without saying so
///   ended     its process ended by itself
///   absent    it never came to torch.distributed
enum class StalledState { answered, silent, stopped, gone, ended, absent };

template <>
struct Names<StalledState> {
  static constexpr std::array<std::string_view, 6> values{"answered", "silent", "stopped",
                                                          "gone",     "ended",  "absent"};
};

struct StalledRank {
  int rank = 0;
  StalledState state = StalledState::answered;
  std::int64_t steps = 0;  ///< begun
  std::string place;       ///< "load_next_batch, train.py:6"; empty: unknown
};

/// A time in which no rank of a job made progress: `stall.json` in the job's folder.
struct Stall {
  std::int64_t seen_ns =
      0;                 ///< when the ranks had answered, by the monotonic clock of this machine
  double limit_s = 0;    ///< for which nobody made progress
  bool is_open = false;  ///< a rank is in a collective that it has not left
  bool is_over = false;  ///< ranks made progress again
  std::vector<StalledRank> ranks = {};
};

/// Asks the operating system and the answers of the ranks, `rank-N.stall.json`, where each rank is.
/// `request`: the number of the answers. Writes `stall.json`, and the collectives of the ranks as
/// logs for the judge if one is open. Throws Error (usage).
Stall record_stall(const std::filesystem::path& folder, const std::string& job_id,
                   std::uint32_t request, double limit_s);

/// Notes that ranks make progress again: they were slow, and did not hang.
void end_stall(const std::filesystem::path& folder, Stall& stall);

/// The last stall of a job; empty: none. Throws Error (usage) if the file is malformed.
std::optional<Stall> read_stall(const std::filesystem::path& folder);

/// Whether the process of a rank ended by a fatal signal of its own, such as SIGABRT, and wrote the
/// stacks of its threads.
bool has_aborted(const std::filesystem::path& folder, int rank);

/// The innermost line of the user's code in these stacks: "main, train.py:65"; empty: there is
/// none.
std::string place_in_stacks(const std::filesystem::path& folder, int rank);

/// Whether the process of a rank lives, stopped or not.
bool is_alive(const WatchedProgress& rank);
bool is_stopped(const WatchedProgress& rank);

/// Replaces the exits of ranks that hang. Says of other ranks where they were in the last stall.
void add_stall(const Stall& stall, std::vector<RankExit>& exits);

}  // namespace lockstep
