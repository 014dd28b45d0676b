#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/limits.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Where the ranks of a group meet.
struct Rendezvous {
  std::string host = "127.0.0.1";
  int port = 0;
  int listen_fd = -1;  ///< where it is to be served: the bound, listening socket; else -1
};

/// A rank's place in its world, whoever started it.
struct RankPlacement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  Rendezvous rendezvous;
};

/// What is known of ranks that another process supervises.
struct PeerState {
  std::optional<int> failed_rank;  ///< one that ended badly
  std::string end_now;             ///< why there is nothing more to wait for; empty: there is
};

struct LaunchOptions {
  int ranks = 1;                            ///< 1 to kMostRanksOfCell
  std::chrono::milliseconds limit{60'000};  ///< for the whole cell
  /// How long ranks may show no progress: a hang is known by it before the limit, however slow the
  /// machine is. As long as the limit where there is none.
  std::optional<std::chrono::milliseconds> silence = {};
  std::chrono::milliseconds grace{5'000};  ///< the same for the others, once a rank ended badly
  /// A number that changes when a rank comes further, asked some times a second; without it the
  /// whole time that ranks take counts as silence.
  std::function<std::uint64_t()> progress = {};
  std::filesystem::path folder;  ///< existing; `rank-N.log`, which must not exist, go there
  /// Run in a process of its own, which is ended when the ranks have: the listening socket of the
  /// place where they meet goes to it instead of rank 0.
  std::function<void(const Rendezvous& rendezvous)> host = {};
  /// Asked some times a second while ranks run.
  std::function<PeerState()> look_at_peers = {};
};

/// Starts `ranks` processes by fork, without exec, runs `rank_main` in each and waits for all of
/// them. The status of a rank is what `rank_main` returns; it ends with `_exit`, so nothing that
/// the parent set up is torn down twice. Standard output and error of a rank go to its log,
/// standard input is empty. An exception that leaves `rank_main` is printed to the log and ends the
/// rank with status 70.
///
/// Returns one end per rank, in rank order: never throws for what a rank did. What is still there
/// at the limit is killed, with all its children, and is `unfinished`. When it returns, no process,
/// socket or temporary file of the ranks is left, nor when SIGINT, SIGTERM or SIGHUP ends this
/// process meanwhile: they take effect once the ranks are gone. A SIGKILL takes the ranks along,
/// but not what they started themselves.
///
/// Requires: this process has one thread (fork would lose the others) and has run no torch
/// operation. Throws Error (internal) otherwise, Error (usage) when `ranks` is out of range, a log
/// cannot be created or no process can be made at all.
std::vector<RankExit> launch_ranks(const LaunchOptions& options,
                                   const std::function<int(const RankPlacement&)>& rank_main);

/// How a process ended, and the signal that asked this process to end meanwhile; 0: none did.
struct LaunchedOne {
  RankExit end;
  int interruption = 0;
};

/// Starts and supervises, as `launch_ranks` does, the one rank of `placement`, whose peers are
/// started by others. `ranks` and `host` are not looked at. A signal that asks this process to end
/// ends the rank, is returned and takes no effect.
LaunchedOne launch_rank(const LaunchOptions& options, const RankPlacement& placement,
                        const std::function<int(const RankPlacement&)>& rank_main);

/// The same for a program, as `execv` takes it, with its output in `log`; `prepare` runs before it.
/// To end it, SIGTERM gives it 5 s to clean up. One that cannot be started exits with 127.
LaunchedOne launch_program(const LaunchOptions& options, const std::vector<std::string>& words,
                           const std::filesystem::path& log, const std::function<void()>& prepare);

/// Log of `rank` in a cell's folder.
std::filesystem::path rank_log(const std::filesystem::path& folder, int rank);

/// "SIGABRT" for 6; "signal 35" where there is no name.
std::string signal_name(int signal);

}  // namespace lockstep
