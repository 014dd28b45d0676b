#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>

namespace lockstep {

/// The ranks that a launcher started on one machine: `count` of them from `first` on; 0: unknown.
struct RanksOfMachine {
  int first = 0;
  int count = 0;

  /// Whether a rank is known to run on another machine.
  bool excludes(int rank) const { return count > 0 && (rank < first || rank >= first + count); }
};

/// How far a watched rank is, as its process counts it in `rank-N.progress`.
struct WatchedProgress {
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  pid_t pid = 0;
  int world_size = 0;
  std::int64_t steps = 0;        ///< begun
  std::int64_t collectives = 0;  ///< called, as far as torch counts them, and the rendezvous
  /// The same for each of the first groups that it is in, in the order of their creation;
  /// kUnknown: the number of the group is not known.
  std::array<std::uint64_t, 8> collectives_of_groups{};
  std::uint32_t answered = 0;  ///< the last `WatchControl::ask_where`
  bool has_ended = false;      ///< the process ended by itself
  RanksOfMachine machine = {};
  std::int64_t rendezvous = 0;  ///< as RankFacts::rendezvous
  std::int64_t peak_bytes = 0;  ///< the most memory of the process until then; 0: unknown
};

/// The ranks of a job that count, by rank. `is_elsewhere` is set if some run on another machine;
/// they are left out.
std::map<int, WatchedProgress> read_all_progress(const std::filesystem::path& folder,
                                                 bool* is_elsewhere = nullptr);

/// Whether all of these ranks say that `rank` runs on another machine than they.
bool is_elsewhere(int rank, const std::map<int, WatchedProgress>& ranks);

}  // namespace lockstep
