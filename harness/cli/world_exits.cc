#include "harness/cli/world_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "harness/launch/launch.h"
#include "harness/launch/log_tail.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// The rank whose end a file of this name holds.
std::optional<int> rank_of(const std::string& name) {
  constexpr std::string_view kPrefix = "rank-";
  int rank = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [parsed, failure] = std::from_chars(name.data() + kPrefix.size(), end, rank);
  const bool is_exit = failure == std::errc() && std::string_view(parsed) == ".exit.json";
  return is_exit ? std::optional(rank) : std::nullopt;
}

}  // namespace

WorldExits::WorldExits(fs::path folder, int world_size)
    : folder_(std::move(folder)), world_size_(world_size) {}

void WorldExits::look() {
  // One listing, not a question for each rank: the folder may be on another machine.
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder_, failure)) {
    const auto rank = rank_of(entry.path().filename().string());
    if (!rank || exits_.contains(*rank)) continue;
    if (auto exit = read_rank_exit(folder_, *rank)) exits_.emplace(*rank, std::move(*exit));
  }
}

std::optional<int> WorldExits::failed_rank() const {
  const RankExit* first = nullptr;
  for (const auto& [rank, exit] : exits_) {
    if (exit.end.ending == Ending::finished) continue;
    if (!first || exit.ended_s < first->ended_s) first = &exit;
  }
  return first ? std::optional(first->end.rank) : std::nullopt;
}

std::optional<int> WorldExits::other_world_size() const {
  for (const auto& [rank, exit] : exits_) {
    if (exit.world_size != world_size_) return exit.world_size;
  }
  return std::nullopt;
}

std::vector<RankEnd> WorldExits::ends(const std::string& why, Ending lost) const {
  std::vector<RankEnd> ends(static_cast<std::size_t>(world_size_));
  std::vector<std::pair<double, int>> in_time;
  for (int rank = 0; rank < world_size_; ++rank) {
    RankEnd& end = ends[static_cast<std::size_t>(rank)];
    const auto exit = exits_.find(rank);
    end.rank = rank;
    end.ending = lost;
    end.detail = why;
    end.order = world_size_ - 1;
    if (exit == exits_.end()) continue;
    end = exit->second.end;
    in_time.emplace_back(exit->second.ended_s, rank);
    if (end.ending != Ending::finished) end.last_output = log_tail(rank_log(folder_, rank));
  }
  std::sort(in_time.begin(), in_time.end());
  for (std::size_t i = 0; i < in_time.size(); ++i) {
    ends[static_cast<std::size_t>(in_time[i].second)].order = static_cast<int>(i);
  }
  return ends;
}

}  // namespace lockstep
