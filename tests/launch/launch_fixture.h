#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "harness/launch/launch.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {

/// Polls until `condition` holds; false if it did not within ten seconds.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Whether there is no such process, or only its entry, which its new parent has not removed yet.
inline bool is_gone(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  const std::string stat = text_if_there("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != stat.npos;
}

/// Ends a process that a test forked, so that an exception cannot carry it into later tests.
[[noreturn]] inline void end_with(const std::function<int()>& body) {
  try {
    ::_exit(body());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    ::_exit(101);
  }
}

inline int wait_for_ever(const RankPlacement&) {
  for (;;) ::pause();
}

inline int connect_to(const Rendezvous& rendezvous) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(rendezvous.port));
  ::inet_pton(AF_INET, rendezvous.host.c_str(), &address.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? fd : -1;
}

/// Launches ranks into the test's own folder.
class Launch : public ::testing::Test {
 protected:
  Launch() {
    options_.folder = folder_.path();
    options_.limit = std::chrono::seconds(60);
  }

  std::vector<RankExit> launch(int ranks, const std::function<int(const RankPlacement&)>& body) {
    options_.ranks = ranks;
    return launch_ranks(options_, body);
  }
  std::string log(int rank) const {
    return text_of(options_.folder / ("rank-" + std::to_string(rank) + ".log"));
  }

  const TemporaryFolder folder_;
  LaunchOptions options_;
};

}  // namespace lockstep
