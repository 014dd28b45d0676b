#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/collective_log.h"
#include "harness/record/stall.h"

namespace lockstep {

/// What the hook of a rank answered when it was asked where it is.
struct StallAnswer {
  bool is_joining = false;              ///< it is in the rendezvous of the world
  bool awaits_message = false;          ///< from another rank, in a call from point to point
  double stands_s = 0;                  ///< so long its main thread has computed nothing
  std::string place;                    ///< "load_next_batch, train.py:6"; empty: unknown
  std::vector<std::string> stack = {};  ///< of the main thread, innermost first
  std::map<std::string, std::vector<int>> groups;    ///< ranks, by title
  std::map<std::string, std::uint64_t> first_known;  ///< number of the first call on record
  std::vector<Collective> calls;                     ///< on record, in call order

  /// Whether it is in a collective that it has not left.
  bool is_open() const;
};

/// Keeps the answer of a rank to the request of `stall`, so that a later one does not replace it:
/// it renames `rank-N.stall.json` to `rank-N.stalled.json`. Empty: the rank did not answer. Throws
/// Error (usage) if the file is malformed.
std::optional<StallAnswer> keep_answer(const std::filesystem::path& folder, int rank,
                                       const Stall& stall);

/// The collectives of the ranks in the stalls of a job, by rank: `folders` are those of its
/// machines. Recorders keep the last calls of a process, so the calls that one rank no longer has
/// are left out on all. Of a rank that could not answer the calls are those it counted, as other
/// ranks know them. Without a stall in a collective, but with a rank that aborted, the calls are
/// those that ranks noted at their end: of groups all of whose ranks did, as far as all of these
/// called. Empty: neither is known. Throws Error (usage) for a malformed file.
std::map<int, std::vector<Collective>> stalled_calls(
    const std::vector<std::filesystem::path>& folders);

}  // namespace lockstep
