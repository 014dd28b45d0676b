#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

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
  /// Collectives that it has called in each of its first groups, in the order of their creation;
  /// -1: unknown.
  std::vector<std::int64_t> collectives = {};
  std::vector<std::string> stack = {};  ///< of its main thread, innermost first; empty: unknown
  bool awaits_message = false;          ///< from another rank, in a call from point to point
};

/// A time in which no rank of a job made progress on a machine: `stall.json` in the job's folder.
struct Stall {
  /// When the ranks had answered, by the monotonic clock of this machine.
  std::int64_t seen_ns = 0;
  double limit_s = 0;         ///< for which nobody made progress
  std::uint32_t request = 0;  ///< number of the answers, `rank-N.stall.json`
  int world_size = 0;
  bool is_open = false;                 ///< a rank is in a collective that it has not left
  bool is_over = false;                 ///< ranks made progress again
  std::vector<StalledRank> ranks = {};  ///< of this machine, and those that never came, ascending

  /// Whether a rank waits for another one, in a collective or for a message.
  bool has_waiting() const;
};

/// Throws Error (usage).
void write_stall(const std::filesystem::path& folder, const Stall& stall);

/// The last stall of a job; empty: none. Throws Error (usage) if the file is malformed.
std::optional<Stall> read_stall(const std::filesystem::path& folder);

}  // namespace lockstep
