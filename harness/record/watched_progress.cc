#include "harness/record/watched_progress.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/environment.h"
#include "harness/record/rank_files.h"
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
  std::uint64_t first_of_machine;
  std::uint64_t count_of_machine;
  std::uint64_t rendezvous;
  std::uint64_t machine;
  std::uint64_t peak_bytes;
};
static_assert(sizeof(Counters) == 168);

constexpr std::uint64_t kMark = 0x70'77'70'63'6b'6c'65'77;
constexpr std::uint64_t kLargestPid = 1 << 22;

std::optional<Counters> read_counters(const std::filesystem::path& folder, int rank) {
  std::ifstream file(rank_file(folder, rank, kProgressEnding), std::ios::binary);
  Counters counters = {};
  if (!file.read(reinterpret_cast<char*>(&counters), sizeof counters)) return {};
  const bool is_sound = counters.mark == kMark && counters.pid > 0 && counters.pid < kLargestPid &&
                        counters.rank == static_cast<std::uint64_t>(rank) &&
                        counters.world_size > counters.rank &&
                        counters.world_size <= static_cast<std::uint64_t>(kMostRanksOfRecord) &&
                        counters.first_of_machine < counters.world_size &&
                        counters.count_of_machine <= counters.world_size;
  if (!is_sound) return {};
  return counters;
}

/// Of this machine since its start: the first 16 digits of its boot id.
std::uint64_t machine() {
  std::string id = boot_id();
  std::erase(id, '-');
  std::uint64_t number = 0;
  id.resize(std::min<std::size_t>(id.size(), 16));
  std::from_chars(id.data(), id.data() + id.size(), number, 16);
  return number;
}

WatchedProgress progress_of(const Counters& counters) {
  WatchedProgress progress;
  progress.pid = static_cast<pid_t>(counters.pid);
  progress.world_size = static_cast<int>(counters.world_size);
  progress.steps = static_cast<std::int64_t>(counters.steps);
  progress.collectives = static_cast<std::int64_t>(counters.collectives);
  progress.collectives_of_groups = counters.collectives_of_groups;
  progress.answered = static_cast<std::uint32_t>(counters.answered);
  progress.has_ended = counters.has_ended != 0;
  progress.machine = {static_cast<int>(counters.first_of_machine),
                      static_cast<int>(counters.count_of_machine)};
  progress.peak_bytes = static_cast<std::int64_t>(counters.peak_bytes);
  progress.rendezvous = static_cast<std::int64_t>(counters.rendezvous);
  return progress;
}

}  // namespace

std::map<int, WatchedProgress> read_all_progress(const std::filesystem::path& folder,
                                                 bool* is_elsewhere) {
  std::map<int, WatchedProgress> ranks;
  const std::uint64_t here = machine();
  for (const int rank : ranks_with_file(folder, kProgressEnding)) {
    const auto counters = read_counters(folder, rank);
    if (!counters) continue;
    if (counters->machine != here) {
      if (is_elsewhere) *is_elsewhere = true;
      continue;
    }
    ranks.emplace(rank, progress_of(*counters));
  }
  return ranks;
}

bool is_elsewhere(int rank, const std::map<int, WatchedProgress>& ranks) {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](const auto& one) {
    return one.second.machine.excludes(rank);
  });
}

}  // namespace lockstep
