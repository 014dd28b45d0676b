#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A folder below the folder of runs.
struct StoredRun {
  std::filesystem::path folder;
  std::string started_utc;  ///< "2026-11-20T18:52:46Z"; empty if it is no run
  std::string title;        ///< "torchrun train.py, 8 ranks", "12 variants of 3 scenarios"; `fault`
  std::string verdict;      ///< as it was stored: "in lockstep", "FAILED", "not judged"
  std::uint64_t bytes = 0;  ///< on disk
  std::string fault;        ///< why it is no run, in a sentence; empty: it is one
  std::string going_on;     ///< why it may still write its files; empty: it has ended
};

/// The folders in `runs`, the newest run first, and those that are no run last. Links are left out.
/// Throws Error (usage) if `runs` cannot be read or is the folder of a run itself.
std::vector<StoredRun> stored_runs(const std::filesystem::path& runs);

/// Of all files in a folder: space on disk, since files may have holes.
std::uint64_t bytes_on_disk(const std::filesystem::path& folder);

/// Which runs are to be removed. A run has to meet both conditions, if both are given.
struct Pruning {
  std::optional<std::size_t> keep;         ///< all but so many, the newest
  std::optional<std::int64_t> older_than;  ///< those that started so many days ago

  bool is_asked_for() const { return keep || older_than; }
};

/// Those of `runs`, in the order of `stored_runs`, that are to be removed. Folders that are no run
/// are not among them. `now`: seconds since 1970.
std::vector<StoredRun> runs_to_remove(const std::vector<StoredRun>& runs, const Pruning& pruning,
                                      std::int64_t now);

/// Removes the folder, its record last: what is left after a failure is still listed. Throws Error
/// (usage).
void remove_run(const StoredRun& run);

}  // namespace lockstep
