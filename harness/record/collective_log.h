#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

namespace lockstep {

/// The log of `rank` in a cell's folder.
std::filesystem::path collective_log_file(const std::filesystem::path& folder, int rank);

/// State of a collective on one rank.
enum class CollectiveState : std::uint8_t { entered, completed, failed };

template <>
struct Names<CollectiveState> {
  static constexpr std::array<std::string_view, 3> values{"entered", "completed", "failed"};
};

/// The operation under which a rank notes that it joins a group, before it meets the others there.
/// Whoever has no such entry never came to the group.
inline constexpr std::string_view kJoin = "join";

/// Longer names of groups are cut in a log, and would be those of other groups.
inline constexpr std::size_t kLongestGroupName = 64;

/// A longer `process_identity` has no room in the header of a log.
inline constexpr std::size_t kLongestProcessIdentity = 312;

/// One collective as one rank called it.
struct Collective {
  std::uint64_t seq = 0;  ///< from 0 in the order of the calls of this rank
  /// From 1 in the order of the calls of this rank in the group; 0 for joining it and for
  /// point-to-point calls, which not all ranks of a group make.
  std::uint64_t number = 0;
  std::int64_t step = 0;  ///< step it was called in; 0: before the first or after the last
  std::string operation;  ///< "allreduce", "broadcast": c10d's name in lower case
  std::string reduction;  ///< "sum", "avg"; empty where there is none
  std::string dtype;      ///< of the first tensor; empty without one
  std::string shape;      ///< of the first tensor: "[4, 4]"; empty without one
  std::uint32_t tensors = 0;
  std::uint64_t elements = 0;  ///< of all tensors
  std::uint64_t bytes = 0;     ///< of all tensors
  int root = -1;               ///< root or peer rank; -1 where there is none
  int group_size = 0;          ///< ranks of the group
  std::string group;           ///< name of the process group
  /// What the first tensor is to the program: "gradient of layers.0.weight"; empty: not known.
  std::string tensor;
  /// The same for all ranks that built the same model: equal exactly where the tensor is the same
  /// parameter, or gradient of it; 0: not known.
  std::int32_t tensor_id = 0;
  std::string site;  ///< "file.cc:41" where it was called; empty: not known
  CollectiveState state = CollectiveState::entered;
  std::int64_t entered_ns = 0;    ///< monotonic clock; a clock field
  std::int64_t completed_ns = 0;  ///< monotonic clock; 0 while it has not; a clock field

  bool operator==(const Collective&) const = default;
};

/// A collective as a log has it, to be sent to another machine: 384 bytes.
std::string to_bytes(const Collective& collective);

/// Throws Error (usage) for what `to_bytes` cannot have made; `source` says where it came from.
Collective collective_of_bytes(const std::string& bytes, const std::string& source);

/// Log of the collectives of one rank in a memory-mapped file, so that what was entered is on
/// record even when the rank is killed the next moment. `enter` is for one thread at a time;
/// `leave` may be called from any thread. Both cost well under a microsecond, but for the few calls
/// of `enter` that make the file longer.
class CollectiveLog {
 public:
  /// Creates the file. `identity` says who writes it, as far as the header has room for it; empty:
  /// not known. Throws Error (usage) when the file exists or cannot be made.
  explicit CollectiveLog(const std::filesystem::path& path, int rank,
                         std::string_view identity = "");
  ~CollectiveLog();
  CollectiveLog(const CollectiveLog&) = delete;
  CollectiveLog& operator=(const CollectiveLog&) = delete;

  /// Notes that a collective was called; seq, state and times are filled in. Returns its seq. A
  /// name longer than its field (operation 24 bytes, reduction and dtype 16, shape 32, group and
  /// site 64, tensor 88) is cut. Throws Error (usage) when the disk is full.
  std::uint64_t enter(const Collective& collective);

  /// Notes how the collective `seq` ended. Requires: `enter` returned `seq`.
  void leave(std::uint64_t seq, CollectiveState state);

 private:
  class File;
  std::unique_ptr<File> file_;
  std::uint64_t count_ = 0;
};

/// Reads a log that another process of this machine may be writing: what one on another machine
/// writes into a shared folder comes here in no certain order. One thread.
class LiveCollectiveLog {
 public:
  explicit LiveCollectiveLog(std::filesystem::path path);
  ~LiveCollectiveLog();
  LiveCollectiveLog(LiveCollectiveLog&& other) noexcept;

  /// How many collectives are on record by now; 0 where there is no log yet, none that can be
  /// read, or one of another machine.
  std::uint64_t count();

  /// Requires: `seq` is below what `count` returned last.
  Collective at(std::uint64_t seq) const;

 private:
  class Mapping;
  std::filesystem::path path_;
  std::unique_ptr<Mapping> mapping_;
};

/// What the log of a rank held.
struct RankCollectives {
  int rank = 0;                   ///< that wrote it
  std::string identity;           ///< `process_identity` of it; empty: not known
  std::vector<Collective> calls;  ///< in their order
};

/// Reads a log. Throws Error (usage) when it is missing or malformed.
RankCollectives read_log_of_rank(const std::filesystem::path& path);

/// The collectives of such a log, whoever wrote it.
std::vector<Collective> read_collective_log(const std::filesystem::path& path);

/// Whether a log was begun: a rank that is killed while it makes its log leaves zeros, or no file.
/// Throws Error (usage) for what is no log at all.
bool has_collective_log(const std::filesystem::path& path);

}  // namespace lockstep
