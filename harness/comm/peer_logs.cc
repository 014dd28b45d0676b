#include "harness/comm/peer_logs.h"

#include <fmt/format.h>

#include "harness/record/collective_words.h"
#include "harness/record/group_error.h"

namespace lockstep {

std::optional<std::string> mismatch_of(const Collective& a, int rank_a, const Collective& b,
                                       int rank_b) {
  if (!difference(a, b)) return std::nullopt;
  return fmt::format("ranks call {}: collective {} of the group {}: {}", group_error::kCallsDiffer,
                     a.number, a.group, difference_in_words(a, rank_a, b, rank_b));
}

PeerLogs::PeerLogs(const std::filesystem::path& folder, int rank, int world_size) : rank_(rank) {
  for (int peer = 0; peer < world_size; ++peer) {
    if (peer == rank) continue;
    peers_.push_back({peer, LiveCollectiveLog(collective_log_file(folder, peer)), 0, {}});
  }
}

std::optional<Collective> PeerLogs::take(Peer& peer, const Collective& call) {
  for (const std::uint64_t count = peer.log.count(); peer.read < count; ++peer.read) {
    const Collective read = peer.log.at(peer.read);
    if (read.number > 0) peer.ahead.emplace(std::pair(read.group, read.number), peer.read);
  }
  const auto found = peer.ahead.find({call.group, call.number});
  if (found == peer.ahead.end()) return std::nullopt;
  return peer.log.at(peer.ahead.extract(found).mapped());
}

std::optional<std::string> PeerLogs::difference_from(const Collective& call) {
  std::optional<std::string> first;
  for (Peer& peer : peers_) {
    const std::optional<Collective> other = take(peer, call);
    if (!first && other) first = mismatch_of(call, rank_, *other, peer.rank);
  }
  return first;
}

}  // namespace lockstep
