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

/// What is said of two ranks' calls that are to meet and do not fit together; nothing when they do.
std::optional<std::string> mismatch_of(const Collective& a, int rank_a, const Collective& b,
                                       int rank_b);

/// The collective logs of the other ranks of this host, read while they are written. One thread at
/// a time.
class PeerLogs {
 public:
  /// In `folder`, of the ranks of a world but for `rank`.
  PeerLogs(const std::filesystem::path& folder, int rank, int world_size);

  /// Holds a call that is on record against what the others called under its number in its group.
  /// Returns the first difference in words; nothing where there is none, or where nobody came yet.
  std::optional<std::string> difference_from(const Collective& call);

 private:
  struct Peer {
    int rank;
    LiveCollectiveLog log;
    std::uint64_t read = 0;  ///< entries seen so far
    /// Seq of calls that were read and are yet to be held against this rank's, by group and number.
    std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> ahead;
  };

  static std::optional<Collective> take(Peer& peer, const Collective& call);

  int rank_;
  std::vector<Peer> peers_;
};

}  // namespace lockstep
