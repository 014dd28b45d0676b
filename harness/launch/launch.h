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

/// Rendezvous address of the ranks of a group.
struct Rendezvous {
  std::string host = "127.0.0.1";
  int port = 0;
  int listen_fd = -1;  ///< the bound, listening socket if it is to be served; else -1
};

/// A rank's placement in its world, for any launcher.
struct RankPlacement {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  Rendezvous rendezvous;
};

/// State of ranks that another process supervises.
struct PeerState {
  std::optional<int> failed_rank;
  std::string end_now;  ///< why waiting is pointless; empty: it is not
};

struct LaunchOptions {
  int ranks = 1;                            ///< 1 to kMostRanksOfCell
  std::chrono::milliseconds limit{60'000};  ///< for the whole cell
  /// Longest time without progress of the ranks. It detects a hang before the limit, even on a slow
  /// machine. Absent: the same as the limit.
  std::optional<std::chrono::milliseconds> silence = {};
  std::chrono::milliseconds grace{5'000};  ///< limit for the others after a rank failed
  /// A number that changes when a rank makes progress, polled several times a second. Without it
  /// the ranks' whole time counts as silence.
  std::function<std::uint64_t()> progress = {};
  std::filesystem::path folder;  ///< existing; receives `rank-N.log`, which must not exist
  /// Runs in its own process, which is ended after the ranks. It receives the rendezvous' listening
  /// socket instead of rank 0.
  std::function<void(const Rendezvous& rendezvous)> host = {};
  /// Polled several times a second while ranks run.
  std::function<PeerState()> look_at_peers = {};
};

/// Starts `ranks` processes by fork, without exec, runs `rank_main` in each and waits for all of
/// them. The return value of `rank_main` is the rank's status. The rank ends with `_exit`, so
/// nothing that the parent set up is destroyed twice. Standard output and error of a rank go to its
/// log, standard input is empty. An exception that leaves `rank_main` is printed to the log and
/// ends the rank with status 70.
///
/// Returns one exit per rank, in rank order, and never throws for a rank's failure. A rank that is
/// still running at the limit is killed with all its children and is `unfinished`. After the return
/// no process, socket or temporary file of the ranks is left. This also holds if SIGINT, SIGTERM or
/// SIGHUP ends this process meanwhile: they take effect after the ranks are gone. A SIGKILL also
/// ends the ranks, but not processes that they started.
///
/// Requires: this process has one thread (fork would lose the others) and has run no torch
/// operation; otherwise throws Error (internal). Throws Error (usage) when `ranks` is out of range,
/// a log cannot be created or no process can be created at all.
std::vector<RankExit> launch_ranks(const LaunchOptions& options,
                                   const std::function<int(const RankPlacement&)>& rank_main);

/// Exit of a process, and the signal that asked this process to end meanwhile; 0: none.
struct LaunchedOne {
  RankExit end;
  int interruption = 0;
};

/// Starts and supervises, like `launch_ranks`, the single rank of `placement`. Its peers are
/// started elsewhere. `ranks` and `host` are ignored. A signal that asks this process to end ends
/// the rank, is returned and has no other effect.
LaunchedOne launch_rank(const LaunchOptions& options, const RankPlacement& placement,
                        const std::function<int(const RankPlacement&)>& rank_main);

/// The same for a program, in the form of `execv`, with its output in `log`; `prepare` runs before
/// it. To end it, SIGTERM gives it 5 s to clean up. A program that cannot be started exits with
/// 127.
LaunchedOne launch_program(const LaunchOptions& options, const std::vector<std::string>& words,
                           const std::filesystem::path& log, const std::function<void()>& prepare);

/// Log of `rank` in a cell's folder.
std::filesystem::path rank_log(const std::filesystem::path& folder, int rank);

/// "SIGABRT" for 6; "signal 35" if it has no name.
std::string signal_name(int signal);

}  // namespace lockstep
