#include "harness/launch/launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>
#include <iterator>

#include "harness/launch/log_tail.h"
#include "harness/launch/rank_process.h"
#include "harness/launch/supervisor.h"
#include "reports/error.h"

namespace lockstep {
namespace {

std::string why() { return ::strerror(errno); }

std::ptrdiff_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

void require_launchable(const LaunchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMostRanks) {
    throw bad_value("ranks", std::to_string(options.ranks),
                    fmt::format("a whole number from 1 to {}", kMostRanks));
  }
  if (const auto threads = thread_count(); threads != 1) {
    throw internal_error(fmt::format("ranks are started by a process of {} threads", threads));
  }
}

std::filesystem::path log_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.log", rank);
}

/// Made before the first rank starts, so that a folder that cannot be written to ends nothing
/// half-way. Appending keeps the lines of a rank and of its children from overwriting each other.
std::vector<UniqueFd> create_logs(const LaunchOptions& options) {
  std::vector<UniqueFd> logs;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const auto file = log_file(options.folder, rank);
    logs.emplace_back(
        ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!logs.back().valid()) throw unwritable(file.string(), why());
  }
  return logs;
}

/// A socket on a free port of the loopback device; `rendezvous` then says where it is.
UniqueFd listen_on_loopback(Rendezvous& rendezvous) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, rendezvous.host.c_str(), &address.sin_addr);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket.valid() || ::bind(socket.get(), generic, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), generic, &size) != 0) {
    throw Error(Error::Kind::usage,
                fmt::format("the ranks have nowhere to meet: {}: {}", rendezvous.host, why()));
  }
  rendezvous.port = ntohs(address.sin_port);
  return socket;
}

Seat seat_of(int rank, int world_size, const Rendezvous& rendezvous) {
  return {rank, world_size, /*local_rank=*/rank, /*local_world_size=*/world_size, rendezvous};
}

void start_ranks(const LaunchOptions& options, Supervisor& supervisor,
                 const std::function<int(const Seat&)>& rank_main) {
  Rendezvous rendezvous;
  RankFiles files;
  files.logs = create_logs(options);
  files.listener = listen_on_loopback(rendezvous);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = start_rank(seat_of(rank, options.ranks, rendezvous), files, rank_main);
    if (pid > 0) {
      supervisor.add(pid);
    } else if (rank == 0) {
      throw Error(Error::Kind::usage, fmt::format("no process can be started: {}", why()));
    } else {
      return supervisor.give_up_starting(why());
    }
  }
}

void add_last_output(std::vector<RankEnd>& ends, const std::filesystem::path& folder) {
  for (RankEnd& end : ends) {
    if (end.ending != Ending::finished) end.last_output = log_tail(log_file(folder, end.rank));
  }
}

}  // namespace

std::vector<RankEnd> launch_ranks(const LaunchOptions& options,
                                  const std::function<int(const Seat&)>& rank_main) {
  require_launchable(options);
  std::vector<RankEnd> ends;
  int interruption = 0;
  {
    Supervisor supervisor(options);
    start_ranks(options, supervisor, rank_main);
    interruption = supervisor.wait();
    ends = supervisor.take_ends();
  }
  add_last_output(ends, options.folder);
  // Only now, with nothing left behind and the caller's own handling in place again.
  if (interruption != 0) ::raise(interruption);
  return ends;
}

std::string signal_name(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace lockstep
