#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/own_file.h"
#include "reports/base/names.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

/// The log of `rank` in a cell's folder.
std::filesystem::path collective_log_file(const std::filesystem::path& folder, int rank);

/// State of a collective on one rank.
enum class CollectiveState : std::uint8_t { entered, completed, failed };

template <>
struct Names<CollectiveState> {
  static constexpr std::array<std::string_view, 3> values{"entered", "completed", "failed"};
};

/// The operation that a rank logs when it joins a group, before the rendezvous. A log without this
/// entry belongs to a rank that never tried to join.
inline constexpr std::string_view kJoin = "join";

/// Longer group names are truncated in a log, so two of them could become equal.
inline constexpr std::size_t kLongestGroupName = 64;

/// A longer `process_identity` does not fit into the header of a log.
inline constexpr std::size_t kLongestProcessIdentity = 312;

/// One collective as one rank called it.
struct Collective {
  std::uint64_t seq = 0;  ///< from 0, in call order on this rank
  /// From 1, in call order of this rank in the group. 0 for the join and for point-to-point calls,
  /// which not all ranks of a group make.
  std::uint64_t number = 0;
  std::int64_t step = 0;  ///< of the call; 0: before the first or after the last one; -1: unknown
  std::string operation;  ///< c10d's name in lower case: "allreduce", "broadcast"
  std::string reduction;  ///< "sum", "avg"; empty if the operation has none
  std::string dtype;      ///< of the first tensor; empty without one
  std::string shape;      ///< of the first tensor: "[4, 4]"; empty without one
  std::uint32_t tensors = 0;
  std::uint64_t elements = 0;  ///< of all tensors
  std::uint64_t bytes = 0;     ///< of all tensors
  int root = -1;               ///< root or peer rank; -1 if there is none
  int group_size = 0;          ///< ranks of the group
  std::string group;           ///< name of the process group
  /// Role of the first tensor in the program: "gradient of layers.0.weight"; empty: unknown.
  std::string tensor;
  /// Identifies the tensor's role. Ranks that built the same model use one number for the same
  /// parameter, and one for the same gradient; 0: unknown.
  std::int32_t tensor_id = 0;
  std::string site;  ///< call site "file.cc:41"; empty: unknown
  CollectiveState state = CollectiveState::entered;
  std::int64_t entered_ns = 0;    ///< monotonic clock; a clock field
  std::int64_t completed_ns = 0;  ///< monotonic clock; 0 until it completes; a clock field

  bool operator==(const Collective&) const = default;
};

/// A collective as stored in a log, for sending to another machine: 384 bytes.
std::string to_bytes(const Collective& collective);

/// Throws Error (usage) if `to_bytes` cannot have produced the bytes; `source` names their origin.
Collective collective_of_bytes(const std::string& bytes, const std::string& source);

/// Log of the collectives of one rank. An entered collective is on record even if the rank is
/// killed the next moment: it is in the system's memory, and no process has the file mapped, which
/// another one may truncate. `enter` is for one thread at a time; `leave` may be called from any
/// thread. Both take two or three microseconds.
class CollectiveLog {
 public:
  /// Creates the file. `identity` names the writing process, truncated to the room in the header;
  /// empty: unknown. Throws Error (usage) when the file exists or cannot be created.
  explicit CollectiveLog(const std::filesystem::path& path, int rank,
                         std::string_view identity = "");

  /// Records the call of a collective and fills in seq, state and times. Returns its seq. Names
  /// longer than their field are truncated: operation 24 bytes, reduction and dtype 16, shape 32,
  /// group and site 64, tensor 88. Throws Error (usage) when the disk is full.
  std::uint64_t enter(const Collective& collective);

  /// Records the final state of the collective `seq`. Requires: `enter` returned `seq`. Throws
  /// Error (usage) when the file is gone.
  void leave(std::uint64_t seq, CollectiveState state);

 private:
  template <class Value>
  bool put_at(std::uint64_t place, const Value& value) const;
  template <class Value>
  void write(const Value& value, std::uint64_t place) const;

  std::string path_;
  OwnFile file_;
  std::uint64_t count_ = 0;
};

/// Reads a log that another process of this machine may be writing. Logs written on another machine
/// are ignored: a shared folder delivers their bytes in no certain order. One thread.
class LiveCollectiveLog {
 public:
  explicit LiveCollectiveLog(std::filesystem::path path);

  /// Number of collectives on record by now. 0 if the log is missing, unreadable, shorter than
  /// that, or from another machine.
  std::uint64_t count();

  /// Requires: `seq` is below the last result of `count`. A state that is none counts as entered.
  Collective at(std::uint64_t seq) const;

 private:
  template <class Value>
  bool read(Value& value, std::uint64_t place) const;

  std::filesystem::path path_;
  UniqueFd file_;
};

/// Content of one rank's log.
struct RankCollectives {
  int rank = 0;                   ///< the rank that wrote it
  std::string identity;           ///< `process_identity` of that rank; empty: unknown
  std::vector<Collective> calls;  ///< in call order
};

/// Reads a log. Throws Error (usage) when it is missing or malformed.
RankCollectives read_log_of_rank(const std::filesystem::path& path);

/// The collectives of a log, whichever process wrote it.
std::vector<Collective> read_collective_log(const std::filesystem::path& path);

/// Whether a log was begun. A rank that is killed while creating its log leaves zeros or no file.
/// Throws Error (usage) for what is no readable file; `read_log_of_rank` does for other contents.
bool has_collective_log(const std::filesystem::path& path);

}  // namespace lockstep
