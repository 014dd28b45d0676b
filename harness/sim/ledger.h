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

/// Live bytes of each device, over all processes that share a file and of this one. What a process
/// leaves behind when it ends is given back, as a driver does it: when somebody else needs it.
/// Thread-safe and free of locks between processes.
class Ledger {
 public:
  /// `path` is made where it is not; empty: this process has the devices to itself. Throws Error
  /// (usage) when the file cannot be used.
  explicit Ledger(const std::filesystem::path& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// What is now live of this process. Nothing, and nothing is added, where more than `capacity`
  /// bytes would be used.
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
  std::mutex reclaiming_;  ///< a lock of the file keeps no thread of its own process out
};

}  // namespace lockstep::sim
