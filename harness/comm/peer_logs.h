#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/collective_log.h"

namespace lockstep {

/// Describes a mismatch of two ranks' calls of one collective; empty if they match.
std::optional<std::string> mismatch_of(const Collective& a, int rank_a, const Collective& b,
                                       int rank_b);

/// The collective logs of the other ranks of this host, read while they are written. One thread at
/// a time.
class PeerLogs {
 public:
  /// Logs in `folder`, of all ranks of a world except `rank`.
  PeerLogs(const std::filesystem::path& folder, int rank, int world_size);

  /// Compares a recorded call with the other ranks' calls of the same number in its group. Returns
  /// the first difference in words; empty if there is none or no other rank has called it yet.
  std::optional<std::string> difference_from(const Collective& call);

 private:
  struct Peer {
    int rank;
    LiveCollectiveLog log;
    std::uint64_t read = 0;  ///< entries read so far
    /// Seq of calls that were read but not yet compared with this rank's, by group and number.
    std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> ahead;
  };

  static std::optional<Collective> take(Peer& peer, const Collective& call);

  int rank_;
  std::vector<Peer> peers_;
};

}  // namespace lockstep
