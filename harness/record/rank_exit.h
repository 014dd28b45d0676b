#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Exit of a rank started by a foreign launcher, as its supervisor saw it: `rank-N.exit.json`.
struct LaunchedExit {
  std::string process;   ///< `process_identity` of the rank
  RankExit end;          ///< rank, kind, code, detail, ended_ns and limit_s; the file has no other
                         ///< field of it
  int world_size = 0;    ///< as reported by the launcher
  std::string launcher;  ///< "torchrun", "Open MPI's mpirun"
  std::string host;      ///< a host field
  double ended_s = 0;    ///< seconds since 1970 (UTC); a clock field
};

/// File of `rank` in a cell's folder.
std::filesystem::path rank_exit_file(const std::filesystem::path& folder, int rank);

/// Writes the whole file atomically. Throws Error (usage).
void write_rank_exit(const std::filesystem::path& folder, const LaunchedExit& exit);

/// Reads the file; empty if there is none yet. Throws Error (usage) when it is malformed or another
/// rank's.
std::optional<LaunchedExit> read_rank_exit(const std::filesystem::path& folder, int rank);

/// `rank-N.here`: shows that the process of `rank` has started. Its modification time shows when
/// the process was last alive. The process of rank 0 removes the file when it no longer needs the
/// others.
std::filesystem::path rank_here_file(const std::filesystem::path& folder, int rank);

/// Rendezvous address of the ranks of one world, in `world.json` of the cell's folder while the
/// process of rank 0 is alive.
struct World {
  std::string host;
  int port = 0;
  std::string token;  ///< random for each world; a process that reads it shares rank 0's folder
};

std::filesystem::path world_file(const std::filesystem::path& folder);
void write_world(const std::filesystem::path& folder, const World& world);
std::optional<World> read_world(const std::filesystem::path& folder);

}  // namespace lockstep
