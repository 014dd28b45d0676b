#include "harness/record/watched_progress.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "reports/record/limits.h"

namespace lockstep {

namespace {

/// The file as the hook writes it, little-endian.
struct Counters {
  std::uint64_t mark;
  std::uint64_t pid;
  std::uint64_t rank;
  std::uint64_t world_size;
  std::uint64_t steps;
  std::uint64_t collectives;
  std::uint64_t answered;
  std::uint64_t has_ended;
  std::array<std::uint64_t, 8> collectives_of_groups;
};
static_assert(sizeof(Counters) == 128);

constexpr std::string_view kBegin = "rank-";
constexpr const char* kExtension = ".progress";
constexpr std::uint64_t kMark = 0x70'77'70'63'6b'6c'65'77;
constexpr std::uint64_t kLargestPid = 1 << 22;

}  // namespace

std::optional<WatchedProgress> read_progress(const std::filesystem::path& folder, int rank) {
  std::ifstream file(folder / fmt::format("{}{}{}", kBegin, rank, kExtension), std::ios::binary);
  Counters counters = {};
  if (!file.read(reinterpret_cast<char*>(&counters), sizeof counters)) return {};
  const bool is_sound = counters.mark == kMark && counters.pid > 0 && counters.pid < kLargestPid &&
                        counters.rank == static_cast<std::uint64_t>(rank) &&
                        counters.world_size > counters.rank &&
                        counters.world_size <= static_cast<std::uint64_t>(kMostRanksOfRecord);
  if (!is_sound) return {};
  return WatchedProgress{static_cast<pid_t>(counters.pid),
                         static_cast<int>(counters.world_size),
                         static_cast<std::int64_t>(counters.steps),
                         static_cast<std::int64_t>(counters.collectives),
                         counters.collectives_of_groups,
                         static_cast<std::uint32_t>(counters.answered),
                         counters.has_ended != 0};
}

std::map<int, WatchedProgress> read_all_progress(const std::filesystem::path& folder) {
  std::map<int, WatchedProgress> ranks;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.path().extension() != kExtension) continue;
    const std::string name = entry.path().stem();
    int rank = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kBegin) ||
        std::from_chars(name.data() + kBegin.size(), end, rank).ptr != end) {
      continue;
    }
    if (const auto progress = read_progress(folder, rank)) ranks.emplace(rank, *progress);
  }
  return ranks;
}

}  // namespace lockstep
