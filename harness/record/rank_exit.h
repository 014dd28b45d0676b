#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// How a rank ended that a foreign launcher started, as its supervisor saw it: `rank-N.exit.json`.
struct LaunchedExit {
  std::string process;   ///< `process_identity` of the rank
  RankExit end;          ///< rank, kind, code, detail, ended_ns, limit_s; the rest stands elsewhere
  int world_size = 0;    ///< as the launcher told it
  std::string launcher;  ///< "torchrun", "Open MPI's mpirun"
  std::string host;      ///< a host field
  double ended_s = 0;    ///< seconds since 1970 (UTC); a clock field
};

/// File of `rank` in a cell's folder.
std::filesystem::path rank_exit_file(const std::filesystem::path& folder, int rank);

/// Writes it, as a whole. Throws Error (usage).
void write_rank_exit(const std::filesystem::path& folder, const LaunchedExit& exit);

/// Reads it; nothing where there is none yet. Throws Error (usage) when it is malformed or another
/// rank's.
std::optional<LaunchedExit> read_rank_exit(const std::filesystem::path& folder, int rank);

/// `rank-N.here`: says that the process of `rank` has come, and by the time of its last change
/// until when it was at work. The process of rank 0 removes it when it needs the others no longer.
std::filesystem::path rank_here_file(const std::filesystem::path& folder, int rank);

/// Where the ranks of one world meet, in `world.json` of the cell's folder while the process of
/// rank 0 is at work.
struct World {
  std::string host;
  int port = 0;
  std::string token;  ///< drawn anew for each world: who reads it sees the folder of rank 0
};

std::filesystem::path world_file(const std::filesystem::path& folder);
void write_world(const std::filesystem::path& folder, const World& world);
std::optional<World> read_world(const std::filesystem::path& folder);

}  // namespace lockstep
