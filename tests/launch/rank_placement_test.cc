#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

// Placements and the rendezvous address -----------------------------------------------------------

bool is_listening(int fd) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening == 1;
}

int listening_sockets() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += is_listening(fd);
  return count;
}

/// Rank 0 receives one message from every other rank.
int meet(const RankPlacement& placement) {
  const auto own = static_cast<char>(placement.rank);
  if (placement.rank != 0) {
    const bool told = ::write(connect_to(placement.rendezvous), &own, 1) == 1;
    return told && placement.rendezvous.listen_fd == -1 && listening_sockets() == 0 ? 0 : 1;
  }
  std::set<char> met{own};
  for (int i = 1; i < placement.world_size; ++i) {
    char peer = 0;
    if (::read(::accept(placement.rendezvous.listen_fd, nullptr, nullptr), &peer, 1) != 1) return 2;
    met.insert(peer);
  }
  const bool all = static_cast<int>(met.size()) == placement.world_size;
  return all && *met.rbegin() == placement.world_size - 1 && listening_sockets() == 1 ? 0 : 3;
}

class LaunchOf : public Launch, public ::testing::WithParamInterface<int> {};

TEST_P(LaunchOf, RanksMeetFromTheirPlacementsAndFinish) {
  const int ranks = GetParam();
  const std::vector<RankExit> exits = launch(ranks, [ranks](const RankPlacement& placement) {
    const bool right = placement.world_size == ranks && placement.local_rank == placement.rank &&
                       placement.local_world_size == ranks && placement.rank < ranks;
    return right ? meet(placement) : 4;
  });
  ASSERT_EQ(exits.size(), static_cast<std::size_t>(ranks));
  std::set<int> orders;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankExit& end = exits[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.rank, rank);
    EXPECT_EQ(end.kind, ExitKind::finished) << "rank " << rank << ": " << end.code;
    EXPECT_EQ(end.last_output, "");
    orders.insert(end.order);
  }
  EXPECT_EQ(orders.size(), exits.size());
  EXPECT_EQ(*orders.rbegin(), ranks - 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LaunchOf, ::testing::Values(1, 2, kMostRanksOfCell));

TEST_F(Launch, MostRanksNeedFewDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{128, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const std::vector<RankExit> exits = launch(kMostRanksOfCell, meet);
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const RankExit& end : exits) EXPECT_EQ(end.kind, ExitKind::finished);
}

TEST_F(Launch, CanBeRepeated) {
  for (int i = 0; i < 30; ++i) {
    options_.folder = folder_.path() / std::to_string(i);
    std::filesystem::create_directory(options_.folder);
    for (const RankExit& end : launch(4, meet)) ASSERT_EQ(end.kind, ExitKind::finished);
  }
}

// Initial state of a rank -------------------------------------------------------------------------

TEST_F(Launch, RankHasDefaultSignalsEmptyInputAndOneThread) {
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const int input_before = ::dup(STDIN_FILENO);
  const int zeros = ::open("/dev/zero", O_RDONLY);
  ::dup2(zeros, STDIN_FILENO);
  const char* const omp = ::getenv("OMP_NUM_THREADS");
  const std::string threads = omp != nullptr ? omp : "1";
  const auto exits = launch(1, [&threads](const RankPlacement&) {
    sigset_t mask;
    ::sigprocmask(SIG_BLOCK, nullptr, &mask);
    if (!sigisemptyset(&mask)) return 1;
    if (::signal(SIGPIPE, SIG_DFL) != SIG_DFL) return 2;
    char byte = 0;
    if (::read(STDIN_FILENO, &byte, 1) != 0) return 3;
    if (::getpgrp() != ::getpid()) return 4;
    return ::getenv("OMP_NUM_THREADS") == threads ? 0 : 5;
  });
  ::signal(SIGPIPE, pipe_before);
  ::dup2(input_before, STDIN_FILENO);
  for (const int fd : {input_before, zeros}) ::close(fd);
  EXPECT_EQ(exits[0].code, 0);
}

TEST_F(Launch, OutputGoesToTheRanksOwnLog) {
  std::cout << "buffered before the launch";
  std::printf("buffered before the launch");
  launch(2, [](const RankPlacement& placement) {
    std::cout << "out of " << placement.rank << '\n';
    std::cerr << "err of " << placement.rank << '\n';
    if (::fork() == 0) {
      std::cout << "child of " << placement.rank << std::endl;
      ::_exit(0);
    }
    ::wait(nullptr);
    std::printf("torn by %d", placement.rank);
    return 0;
  });
  std::cout << std::endl;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string n = std::to_string(rank);
    EXPECT_EQ(log(rank), "out of " + n + "\nerr of " + n + "\nchild of " + n + "\ntorn by " + n);
  }
}

}  // namespace
}  // namespace lockstep
