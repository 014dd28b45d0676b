#include "harness/launch/machine.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "harness/launch/capability.h"
#include "harness/launch/listen.h"
#include "harness/launch/probe.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// The rank's own thread and those of torch, Gloo and the store.
constexpr int kThreadsOfRank = 4;
constexpr std::size_t kSmallStack = 256UL * 1024;

std::optional<MachineFault> fault_of_files(int ranks) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files_needed(ranks) <= files.rlim_cur) return std::nullopt;
  return MachineFault{
      fmt::format("{} open files are too few for {} {}; they need {}", files.rlim_cur, ranks,
                  ranks == 1 ? "rank" : "ranks", files_needed(ranks)),
      fmt::format("ulimit -n {}", files_needed(ranks))};
}

void* wait_at(void* gate) {
  const std::lock_guard passed(*static_cast<std::mutex*>(gate));
  return nullptr;
}

/// Creates threads that exist at the same time. Returns 0, or 1 with the reason on standard output.
int make_threads(int count) {
  pthread_attr_t small;
  ::pthread_attr_init(&small);
  ::pthread_attr_setstacksize(&small, kSmallStack);
  std::mutex gate;
  std::vector<pthread_t> threads;
  int error = 0;
  gate.lock();
  for (int i = 0; i < count && error == 0; ++i) {
    pthread_t thread{};
    error = ::pthread_create(&thread, &small, wait_at, &gate);
    if (error == 0) threads.push_back(thread);
  }
  gate.unlock();
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  ::pthread_attr_destroy(&small);
  if (error != 0) std::puts(::strerror(error));
  return error == 0 ? 0 : 1;
}

std::optional<MachineFault> fault_of_processes(int ranks) {
  const Probe made = probe([&] { return make_threads(kThreadsOfRank * ranks); }, kAnswerLimit);
  if (made.end.kind == ExitKind::finished) return std::nullopt;
  const std::string said = first_line(made.output);
  return MachineFault{
      fmt::format("processes and threads for {} {} cannot be created ({})", ranks,
                  ranks == 1 ? "rank" : "ranks", said.empty() ? exit_in_words(made.end) : said),
      "raise ulimit -u, or in a container docker run --pids-limit"};
}

/// Whether a connection to `port` of this machine succeeds; otherwise the reason is in `errno`.
bool connects_to(int port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, kLoopback, &name.sin_addr);
  return socket.valid() &&
         ::connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
}

std::optional<MachineFault> fault_of_loopback() {
  std::string why;
  try {
    int port = 0;
    const UniqueFd listener = listen_on(kLoopback, 0, port);
    if (connects_to(port)) return std::nullopt;
    why = ::strerror(errno);
  } catch (const Error& error) {
    why = error.what();
  }
  return MachineFault{
      fmt::format("ranks meet on {}, but connections to it fail ({})", kLoopback, why),
      "bring the loopback interface up: ip link set lo up"};
}

}  // namespace

rlim_t files_needed(int ranks) { return 20 + 2 * static_cast<rlim_t>(ranks); }

bool has_room_for(int ranks) { return !fault_of_processes(ranks); }

std::optional<MachineFault> find_machine_fault(int ranks) {
  if (auto fault = fault_of_files(ranks)) return fault;
  if (auto fault = fault_of_processes(ranks)) return fault;
  return fault_of_loopback();
}

void check_machine(int ranks) {
  if (ranks == 0) return;
  if (const auto fault = find_machine_fault(ranks)) {
    throw machine_fault(fault->problem, fault->remedy);
  }
}

}  // namespace lockstep
