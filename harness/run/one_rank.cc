#include "harness/run/one_rank.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "harness/comm/overdue_calls.h"
#include "harness/comm/store_service.h"
#include "harness/launch/listen.h"
#include "harness/launch/probe.h"
#include "harness/launch/signal_watch.h"
#include "harness/record/environment.h"
#include "harness/record/process_identity.h"
#include "harness/record/run_folder.h"
#include "harness/record/whole_file.h"
#include "harness/run/run_cell.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

/// Allowance for starting, ending and writing, in addition to a rank's limit.
constexpr std::chrono::milliseconds kSlack = 10s;
constexpr std::chrono::milliseconds kBetweenLooks = 50ms;
/// Largest expected distance between the starts of a launcher's processes.
constexpr std::chrono::milliseconds kStartSpread = 30s;
/// Added to a received exit status, to distinguish it from processes that received none.
constexpr int kHeard = 100;

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

OneRank::OneRank(const PlannedCell& planned, fs::path folder, std::chrono::milliseconds limit,
                 const ForeignPlacement& placement)
    : planned_(planned),
      folder_(std::move(folder)),
      limit_(limit),
      placement_(placement),
      begin_(Clock::now()),
      launcher_(::getppid()),
      exits_(folder_, planned.cell) {
  make_folders(folder_);
}

OneRank::~OneRank() { close_world(); }

/// Tells the other processes that they are no longer needed.
void OneRank::close_world() {
  if (!std::exchange(is_open_, false)) return;
  if (!placement_.is_one_machine()) tell();
  std::error_code ignored;
  for (int rank = 0; rank < placement_.world_size; ++rank) {
    fs::remove(rank_here_file(folder_, rank), ignored);
  }
  fs::remove(world_file(folder_), ignored);
}

bool OneRank::is_orphan() const { return ::getppid() != launcher_; }

/// For rank 0.
void OneRank::open_world() {
  World world{placement_.host, placement_.port, new_token()};
  if (world.host.empty()) world.host = placement_.is_one_machine() ? kLoopback : host_name();
  if (!placement_.is_served) {
    const bool stays_here = placement_.is_one_machine() && placement_.host.empty();
    const UniqueFd listener =
        listen_on(stays_here ? kLoopback : kEveryAddress, placement_.port, world.port);
    const Rendezvous served{world.host, world.port, listener.get()};
    store_.emplace([&] { serve_store(served); });
  }
  rendezvous_ = {world.host, world.port, -1};
  if (!placement_.is_one_machine()) {
    receiver_.emplace(
        [&] { receive_files(rendezvous_, placement_.world_size, world.token, folder_); });
  }
  write_world(folder_, world);
  is_open_ = true;
}

/// For the others.
void OneRank::enter_world() {
  rendezvous_ = {placement_.host, placement_.port, -1};
  while (rendezvous_.port == 0) {
    if (const auto world = read_world(folder_)) {
      rendezvous_ = {world->host, world->port, -1};
    } else if (Clock::now() > begin_ + std::max(limit_, kStartSpread) || is_orphan()) {
      throw no_place_to_meet(folder_.string());
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

/// Waits until all processes are there, because they may start seconds apart: longer than the limit
/// of a cell that is expected to hang. Without a shared folder it does not wait.
void OneRank::await_peers() {
  if (!placement_.is_one_machine() && placement_.port != 0) return;
  write_whole_file(rank_here_file(folder_, placement_.rank), "");
  const Clock::time_point deadline = begin_ + kStartSpread;
  for (int rank = 0; rank < placement_.world_size; ++rank) {
    while (!fs::exists(rank_here_file(folder_, rank)) && Clock::now() < deadline && !is_orphan()) {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

RankPlacement OneRank::placement() const {
  return {placement_.rank, placement_.world_size, placement_.local_rank,
          placement_.local_world_size, rendezvous_};
}

PeerState OneRank::look_at_peers() {
  // By the clock of the folder, which may be on another machine.
  ::utime(rank_here_file(folder_, placement_.rank).c_str(), nullptr);
  exits_.look();
  const auto mismatch = overdue_mismatch(folder_, placement_.rank);
  const std::string why = is_orphan() ? "its launcher is gone"
                          : mismatch  ? "ended because " + *mismatch
                                      : "";
  return {exits_.failed_rank(), why};
}

LaunchedOne OneRank::launch() {
  LaunchOptions options;
  options.limit = limit_;
  options.folder = folder_;
  options.look_at_peers = [this] { return look_at_peers(); };
  // A rank on the same machine reads the logs itself before each call.
  if (planned_.cell.collectives == Collectives::check && !placement_.is_one_machine()) {
    overdue_.emplace([this] { watch_overdue_calls(rendezvous_, placement_.rank, folder_); });
  }
  return launch_rank(options, placement(), body_of(planned_, folder_, limit_));
}

void OneRank::leave_word(const RankExit& end) const {
  write_rank_exit(folder_, {process_identity(planned_.cell, end.rank), end, placement_.world_size,
                            placement_.variables->launcher, host_name(), seconds_since_1970()});
}

void OneRank::refuse() const {
  RankExit end;
  end.rank = placement_.rank;
  end.kind = ExitKind::unstarted;
  leave_word(end);
}

RankExit OneRank::run() {
  LaunchedOne launched;
  {
    // A second signal must not come between the rank's end and its record.
    const SignalWatch postponed;
    try {
      placement_.rank == 0 ? open_world() : enter_world();
      await_peers();
      launched = launch();
    } catch (const Error& error) {
      launched.end.rank = placement_.rank;
      launched.end.kind = ExitKind::unstarted;
      launched.end.detail = error.what();
      // Does not overwrite the exit file of an earlier run, which may be the reason.
      if (!fs::exists(rank_exit_file(folder_, placement_.rank))) leave_word(launched.end);
      throw;
    }
    leave_word(launched.end);
  }
  if (launched.interruption != 0) {
    close_world();
    ::raise(launched.interruption);
  }
  if (is_orphan()) throw launcher_is_gone(placement_.variables->launcher);
  return launched.end;
}

std::vector<RankExit> OneRank::gather() {
  const Clock::time_point deadline =
      begin_ + kStartSpread + limit_ + LaunchOptions().grace + kSlack;
  for (exits_.look(); !exits_.is_complete() && Clock::now() < deadline; exits_.look()) {
    if (is_orphan()) throw launcher_is_gone(placement_.variables->launcher);
    std::this_thread::sleep_for(kBetweenLooks);
  }
  const std::chrono::duration<double> waited = Clock::now() - begin_;
  return exits_.exits(fmt::format("no report from it within {:.0f} s", waited.count()));
}

/// In a separate process, because it uses the store. Empty if this folder is that of rank 0.
std::optional<ExitStatus> OneRank::send_and_hear() const {
  const auto world = read_world(folder_);
  // Rank 0 may compute a reference, and judges, before it sends the status.
  const std::chrono::milliseconds limit = kStartSpread + 2 * (limit_ + kSlack);
  const Probe asked = probe(
      [&] {
        if (!send_files(rendezvous_, placement_.rank, world ? world->token : "", folder_, limit))
          return 0;
        return kHeard + hear_status(rendezvous_, placement_.rank, limit);
      },
      limit);
  if (asked.end.kind != ExitKind::exited || asked.end.code < kHeard) return std::nullopt;
  return static_cast<ExitStatus>(asked.end.code - kHeard);
}

void OneRank::tell() const {
  probe(
      [&] {
        tell_status(rendezvous_, placement_.world_size, static_cast<int>(status_), kSlack);
        return 0;
      },
      kSlack);
}

std::optional<ExitStatus> OneRank::see_off() {
  if (!placement_.is_one_machine()) {
    if (const auto heard = send_and_hear()) return heard;
  }
  // Meanwhile rank 0 may compute a reference, which has the same limit.
  const Clock::time_point deadline =
      begin_ + kStartSpread + 2 * (limit_ + kSlack) + LaunchOptions().grace;
  std::error_code ignored;
  while (fs::exists(world_file(folder_), ignored) && Clock::now() < deadline && !is_orphan()) {
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return std::nullopt;
}

}  // namespace lockstep
