#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>

namespace lockstep::sim {

inline constexpr int kMostDevices = 64;
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Live bytes of each device, for this process and over all processes that share a file. Bytes of
/// an ended process are released as by a driver: when another process needs them. Thread-safe,
/// without locks between processes.
class Ledger {
 public:
  /// Creates `path` if it is missing; empty: only this process uses the devices. Throws Error
  /// (usage) when the file cannot be used.
  explicit Ledger(const std::filesystem::path& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Returns the live bytes of this process. If more than `capacity` bytes would be used, adds
  /// nothing and returns empty.
  std::optional<std::int64_t> add(int device, std::int64_t bytes, std::int64_t capacity);
  void remove(int device, std::int64_t bytes);

  std::int64_t used(int device) const;  ///< of all processes
  std::int64_t own(int device) const;   ///< of this one

 private:
  static constexpr int kMostProcesses = 256;
  using Bytes = std::atomic<std::int64_t>;
  struct Row {
    Bytes live[kMostDevices];
  };
  struct Table {
    Row used;
    Row of_process[kMostProcesses];
  };
  static_assert(Bytes::is_always_lock_free, "processes share them");

  void map(const std::filesystem::path& path);
  void claim_row(const std::filesystem::path& path);
  std::optional<std::int64_t> try_add(int device, std::int64_t bytes, std::int64_t capacity);
  void reclaim_from_ended_processes();
  void reclaim(Row& row);
  bool lock_row(int row) const;
  void unlock_row(int row) const;

  int fd_ = -1;
  Table* table_ = nullptr;
  int own_row_ = 0;
  std::mutex reclaiming_;  ///< a file lock does not exclude threads of the same process
};

}  // namespace lockstep::sim
