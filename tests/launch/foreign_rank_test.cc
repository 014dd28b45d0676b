#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// A rank of a foreign world, a program, and the host of the rendezvous ----------------------------

TEST_F(Launch, OneRankHasThePlacementThatItIsGiven) {
  const RankPlacement placement{5, 8, 1, 4, {"node0", 29500, -1}};
  const LaunchedOne launched = launch_rank(options_, placement, [](const RankPlacement& own) {
    std::cout << own.rank << own.world_size << own.local_rank << own.rendezvous.host << std::endl;
    return 3;
  });
  EXPECT_EQ(log(5), "581node0\n");
  EXPECT_EQ(launched.end.rank, 5);
  EXPECT_EQ(launched.end.code, 3);
  EXPECT_EQ(launched.end.last_output, "581node0\n");
  EXPECT_EQ(launched.interruption, 0);
}

TEST_F(Launch, OneRankIsEndedInTimeWhenAnotherFailedElsewhere) {
  options_.limit = 600s;
  options_.grace = 100ms;
  options_.look_at_peers = [] { return PeerState{3, ""}; };
  const LaunchedOne launched = launch_rank(options_, RankPlacement{}, wait_for_ever);
  EXPECT_EQ(launched.end.kind, ExitKind::unfinished);
  EXPECT_EQ(launched.end.detail, "ended 0.1 s after rank 3 failed");
}

TEST_F(Launch, OneRankIsEndedWhenThereIsNothingToWaitFor) {
  options_.limit = 600s;
  options_.look_at_peers = [] { return PeerState{std::nullopt, "its launcher is gone"}; };
  EXPECT_EQ(launch_rank(options_, RankPlacement{}, wait_for_ever).end.detail,
            "its launcher is gone");
}

TEST_F(Launch, OneRankIsInterruptedAndTheSignalReturned) {
  const pid_t supervisor = ::getpid();
  const LaunchedOne launched =
      launch_rank(options_, RankPlacement{}, [supervisor](const RankPlacement& placement) {
        ::kill(supervisor, SIGTERM);
        return wait_for_ever(placement);
      });
  EXPECT_EQ(launched.interruption, SIGTERM);
  EXPECT_EQ(launched.end.detail, "interrupted by SIGTERM");
  EXPECT_EQ(launched.end.cause, ExitCause::interrupted);
}

TEST_F(Launch, ProgramRunsAfterItsPreparation) {
  const auto file = options_.folder / "launcher.log";
  const LaunchedOne launched = launch_program(options_, {"/bin/sh", "-c", "echo $PLANTED; exit 4"},
                                              file, [] { ::setenv("PLANTED", "yes", 1); });
  EXPECT_EQ(launched.end.code, 4);
  EXPECT_EQ(launched.end.last_output, "yes\n");
  EXPECT_EQ(text_of(file), "yes\n");
  EXPECT_EQ(std::getenv("PLANTED"), nullptr);
}

TEST_F(Launch, ProgramThatCannotBeStartedSaysWhy) {
  const auto file = options_.folder / "launcher.log";
  const LaunchedOne launched = launch_program(options_, {"/nowhere"}, file, [] {});
  EXPECT_EQ(launched.end.code, 127);
  EXPECT_EQ(text_of(file), "No such file or directory");
}

/// Sends its identity to every process that connects.
void say_who(const Rendezvous& rendezvous) {
  const pid_t own = ::getpid();
  for (;;) {
    const int peer = ::accept(rendezvous.listen_fd, nullptr, nullptr);
    if (::write(peer, &own, sizeof(own)) != sizeof(own)) ::_exit(1);
    ::close(peer);
  }
}

TEST_F(Launch, HostServesAllRanksFromAProcessOfItsOwnAndEndsWithThem) {
  options_.host = say_who;
  const auto exits = launch(3, [](const RankPlacement& placement) {
    if (placement.rendezvous.listen_fd != -1) return 1;
    pid_t host = 0;
    if (::read(connect_to(placement.rendezvous), &host, sizeof(host)) != sizeof(host)) return 2;
    std::cout << host << std::endl;
    return host != ::getpid() && host != ::getppid() ? 0 : 3;
  });
  for (const RankExit& end : exits) EXPECT_EQ(end.code, 0);
  EXPECT_EQ(log(0), log(2));
  EXPECT_TRUE(is_gone(std::stoi(log(0))));
  EXPECT_EQ(text_of("/proc/thread-self/children"), "");
}

}  // namespace
}  // namespace lockstep
