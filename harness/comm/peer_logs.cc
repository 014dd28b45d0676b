#include "harness/comm/peer_logs.h"

#include <fmt/format.h>

#include "harness/comm/process_group.h"
#include "harness/record/collective_words.h"

namespace lockstep {

PeerLogs::PeerLogs(const std::filesystem::path& folder, int rank, int world_size) : rank_(rank) {
  for (int peer = 0; peer < world_size; ++peer) {
    if (peer == rank) continue;
    peers_.push_back({peer, LiveCollectiveLog(collective_log_file(folder, peer)), 0, {}});
  }
}

std::optional<Collective> PeerLogs::take(Peer& peer, const Collective& call) {
  for (const std::uint64_t count = peer.log.count(); peer.read < count; ++peer.read) {
    Collective read = peer.log.at(peer.read);
    if (read.number == 0) continue;
    const auto key = std::pair(read.group, read.number);
    peer.ahead.emplace(key, std::move(read));
  }
  const auto found = peer.ahead.find({call.group, call.number});
  if (found == peer.ahead.end()) return std::nullopt;
  return std::move(peer.ahead.extract(found).mapped());
}

std::optional<std::string> PeerLogs::difference_from(const Collective& call) {
  std::optional<std::string> first;
  for (Peer& peer : peers_) {
    const std::optional<Collective> other = take(peer, call);
    if (first || !other || !difference(call, *other)) continue;
    first =
        fmt::format("ranks call {}: collective {} of the group {}: {}", group_error::kCallsDiffer,
                    call.number, call.group, difference_in_words(call, rank_, *other, peer.rank));
  }
  return first;
}

}  // namespace lockstep
