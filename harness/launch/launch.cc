#include "harness/launch/launch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <string.h>

#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include "harness/launch/helper_process.h"
#include "harness/launch/interruption.h"
#include "harness/launch/listen.h"
#include "harness/launch/log_tail.h"
#include "harness/launch/probe.h"
#include "harness/launch/rank_process.h"
#include "harness/launch/supervisor.h"
#include "reports/base/error.h"
#include "reports/base/private_files.h"

namespace lockstep {
namespace {

std::string why() { return ::strerror(errno); }

std::ptrdiff_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

void require_launchable(const LaunchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMostRanksOfCell) {
    throw bad_value("ranks", std::to_string(options.ranks),
                    fmt::format("a whole number from 1 to {}", kMostRanksOfCell));
  }
  if (const auto threads = thread_count(); threads != 1) {
    throw internal_error(fmt::format("ranks are started by a process of {} threads", threads));
  }
}

UniqueFd create_log(const std::filesystem::path& file) {
  UniqueFd log(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
                      mode_of_new_file(file)));
  if (!log.valid()) throw unwritable(file.string(), why());
  return log;
}

/// Created before the first rank starts, so that an unwritable folder ends nothing half-way. Append
/// mode keeps lines of a rank and of its children from overwriting each other.
std::vector<UniqueFd> create_logs(const LaunchOptions& options) {
  std::vector<UniqueFd> logs;
  for (int rank = 0; rank < options.ranks; ++rank) {
    logs.push_back(create_log(rank_log(options.folder, rank)));
  }
  return logs;
}

RankPlacement placement_of(int rank, int world_size, const Rendezvous& rendezvous) {
  return {rank, world_size, /*local_rank=*/rank, /*local_world_size=*/world_size, rendezvous};
}

/// Rendezvous address of the ranks and, if the caller wants one, the process that hosts it.
struct CollectivePlace {
  Rendezvous rendezvous;
  UniqueFd listener;
  std::optional<HelperProcess> host;
};

void open(CollectivePlace& place, const LaunchOptions& options) {
  place.listener = listen_on(place.rendezvous.host, 0, place.rendezvous.port);
  if (!options.host) return;
  Rendezvous served = place.rendezvous;
  served.listen_fd = place.listener.get();
  place.host.emplace([&] { options.host(served); });
  place.listener = {};
}

void start_ranks(const LaunchOptions& options, CollectivePlace& place, Supervisor& supervisor,
                 const std::function<int(const RankPlacement&)>& rank_main) {
  RankFiles files;
  files.logs = create_logs(options);
  files.listener = std::move(place.listener);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = start_rank(placement_of(rank, options.ranks, place.rendezvous),
                                 static_cast<std::size_t>(rank), files, rank_main);
    if (pid > 0) {
      supervisor.add(pid);
    } else if (rank == 0) {
      throw no_process(why());
    } else {
      return supervisor.give_up_starting(why());
    }
  }
}

void add_last_output(std::vector<RankExit>& exits, const std::filesystem::path& folder) {
  for (RankExit& end : exits) {
    if (end.kind != ExitKind::finished) end.last_output = log_tail(rank_log(folder, end.rank));
  }
}

}  // namespace

std::vector<RankExit> launch_ranks(const LaunchOptions& options,
                                   const std::function<int(const RankPlacement&)>& rank_main) {
  require_launchable(options);
  std::vector<RankExit> exits;
  int interruption = 0;
  {
    // Before the supervisor, which ends all children created later.
    CollectivePlace place;
    open(place, options);
    Supervisor supervisor(options);
    start_ranks(options, place, supervisor, rank_main);
    interruption = supervisor.wait();
    exits = supervisor.take_ends();
  }
  add_last_output(exits, options.folder);
  // Only now, with no process left and the caller's own handlers restored. An interruption that is
  // already recorded would count as a second request.
  if (interruption != 0 && Interruption::noted() == 0) ::raise(interruption);
  return exits;
}

namespace {

/// For a launcher, which must end its ranks and remove its own folders.
constexpr std::chrono::milliseconds kCleanUp{5000};

LaunchedOne launch_one(LaunchOptions options, const RankPlacement& placement,
                       const std::filesystem::path& log, std::chrono::milliseconds clean_up,
                       const std::function<int(const RankPlacement&)>& body) {
  options.ranks = 1;
  require_launchable(options);
  RankFiles files;
  files.logs.push_back(create_log(log));
  LaunchedOne launched;
  {
    Supervisor supervisor(options, clean_up);
    const pid_t pid = start_rank(placement, 0, files, body);
    if (pid < 0) throw no_process(why());
    supervisor.add(pid);
    launched.interruption = supervisor.wait();
    launched.end = supervisor.take_ends().front();
  }
  launched.end.rank = placement.rank;
  if (launched.end.kind != ExitKind::finished) launched.end.last_output = log_tail(log);
  return launched;
}

}  // namespace

LaunchedOne launch_rank(const LaunchOptions& options, const RankPlacement& placement,
                        const std::function<int(const RankPlacement&)>& rank_main) {
  return launch_one(options, placement, rank_log(options.folder, placement.rank), /*clean_up=*/{},
                    rank_main);
}

LaunchedOne launch_program(const LaunchOptions& options, const std::vector<std::string>& words,
                           const std::filesystem::path& log, const std::function<void()>& prepare) {
  return launch_one(options, RankPlacement{}, log, kCleanUp, [&](const RankPlacement&) {
    prepare();
    return become(words);
  });
}

std::filesystem::path rank_log(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.log", rank);
}

std::string signal_name(int signal) {
  // The C library knows their names from glibc 2.32 on, and the wheel runs with older ones.
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGABRT, "SIGABRT"},     {SIGALRM, "SIGALRM"},     {SIGBUS, "SIGBUS"},
      {SIGCHLD, "SIGCHLD"},     {SIGCONT, "SIGCONT"},     {SIGFPE, "SIGFPE"},
      {SIGHUP, "SIGHUP"},       {SIGILL, "SIGILL"},       {SIGINT, "SIGINT"},
      {SIGIO, "SIGIO"},         {SIGKILL, "SIGKILL"},     {SIGPIPE, "SIGPIPE"},
      {SIGPROF, "SIGPROF"},     {SIGPWR, "SIGPWR"},       {SIGQUIT, "SIGQUIT"},
      {SIGSEGV, "SIGSEGV"},     {SIGSTKFLT, "SIGSTKFLT"}, {SIGSTOP, "SIGSTOP"},
      {SIGSYS, "SIGSYS"},       {SIGTERM, "SIGTERM"},     {SIGTRAP, "SIGTRAP"},
      {SIGTSTP, "SIGTSTP"},     {SIGTTIN, "SIGTTIN"},     {SIGTTOU, "SIGTTOU"},
      {SIGURG, "SIGURG"},       {SIGUSR1, "SIGUSR1"},     {SIGUSR2, "SIGUSR2"},
      {SIGVTALRM, "SIGVTALRM"}, {SIGWINCH, "SIGWINCH"},   {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return name;
  }
  return fmt::format("signal {}", signal);
}

}  // namespace lockstep
