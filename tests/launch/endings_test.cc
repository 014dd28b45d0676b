#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::StartsWith;

TEST_F(Launch, StatusOfARankIsWhatItsBodyReturns) {
  const auto exits = launch(3, [](const RankPlacement& placement) { return placement.rank * 7; });
  EXPECT_EQ(exits[0].kind, ExitKind::finished);
  EXPECT_EQ(exits[1].kind, ExitKind::exited);
  EXPECT_EQ(exits[1].code, 7);
  EXPECT_EQ(exits[2].code, 14);
}

TEST_F(Launch, ExitInsideTheBodyIsTold) {
  const auto exits = launch(2, [](const RankPlacement& placement) {
    if (placement.rank == 1) std::exit(3);
    return 0;
  });
  EXPECT_EQ(exits[0].kind, ExitKind::finished);
  EXPECT_EQ(exits[1].kind, ExitKind::exited);
  EXPECT_EQ(exits[1].code, 3);
}

TEST_F(Launch, SignalIsNamed) {
  const std::array<int, 3> signals{SIGABRT, SIGSEGV, SIGKILL};
  const auto exits = launch(3, [&signals](const RankPlacement& placement) {
    if (placement.rank == 0) std::abort();
    return ::raise(signals[static_cast<std::size_t>(placement.rank)]);
  });
  const std::array<std::string, 3> names{"SIGABRT", "SIGSEGV", "SIGKILL"};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(exits[rank].kind, ExitKind::signalled);
    EXPECT_EQ(exits[rank].code, signals[rank]);
    EXPECT_EQ(exits[rank].detail, names[rank]);
  }
}

TEST_F(Launch, ExceptionIsPrintedAndEndsTheRankWith70) {
  const auto exits = launch(2, [](const RankPlacement& placement) -> int {
    std::cout << "before\n";
    if (placement.rank == 0) throw std::runtime_error("the weights left");
    throw 5;
  });
  EXPECT_EQ(exits[0].kind, ExitKind::exited);
  EXPECT_EQ(exits[0].code, 70);
  EXPECT_EQ(exits[0].last_output, "before\nuncaught exception: the weights left\n");
  EXPECT_EQ(log(0), exits[0].last_output);
  EXPECT_EQ(exits[1].code, 70);
}

TEST_F(Launch, RankThatWaitsForEverIsEndedAtTheLimit) {
  options_.limit = 500ms;
  const auto exits = launch(2, [](const RankPlacement& placement) {
    std::cout << "waiting" << std::endl;
    return placement.rank == 1 ? wait_for_ever(placement) : 0;
  });
  EXPECT_EQ(exits[0].kind, ExitKind::finished);
  EXPECT_EQ(exits[0].order, 0);
  EXPECT_EQ(exits[0].last_output, "") << "it has nothing to explain";
  EXPECT_EQ(exits[1].kind, ExitKind::unfinished);
  EXPECT_EQ(exits[1].detail, "limit of 0.5 s");
  EXPECT_EQ(exits[1].cause, ExitCause::time_limit);
  EXPECT_EQ(exits[1].limit_s, 0.5);
  EXPECT_EQ(exits[1].last_output, "waiting\n");
}

TEST_F(Launch, RankThatComesNoFurtherIsEndedBeforeTheLimit) {
  options_.limit = 60s;
  options_.silence = 500ms;
  options_.progress = [] { return 7; };
  const auto exits = launch(1, wait_for_ever);
  EXPECT_EQ(exits[0].kind, ExitKind::unfinished);
  EXPECT_EQ(exits[0].cause, ExitCause::no_progress);
  EXPECT_EQ(exits[0].detail, "no progress for 0.5 s");
  EXPECT_EQ(exits[0].limit_s, 0.5);
}

TEST_F(Launch, RankThatComesFurtherIsEndedAtTheLimitAlone) {
  options_.limit = 2s;
  options_.silence = 500ms;
  options_.progress = [reached = std::uint64_t{0}]() mutable { return ++reached; };
  const auto exits = launch(1, wait_for_ever);
  EXPECT_EQ(exits[0].cause, ExitCause::time_limit);
  EXPECT_EQ(exits[0].limit_s, 2.0);
}

TEST_F(Launch, RankThatComesFurtherHasTimeAfterAnotherFailed) {
  options_.grace = 300ms;
  options_.progress = [reached = std::uint64_t{0}]() mutable { return ++reached; };
  const auto exits = launch(2, [](const RankPlacement& placement) {
    if (placement.rank == 1) return 1;
    std::this_thread::sleep_for(1s);
    return 0;
  });
  EXPECT_EQ(exits[0].kind, ExitKind::finished);
}

TEST_F(Launch, WholeSecondsPrintWithoutAPoint) {
  options_.limit = 1s;
  EXPECT_EQ(launch(1, wait_for_ever)[0].detail, "limit of 1 s");
}

TEST_F(Launch, StoppedRankIsToldFromASlowOne) {
  options_.limit = 500ms;
  const auto exits = launch(2, [](const RankPlacement& placement) {
    if (placement.rank == 1) ::raise(SIGSTOP);
    return wait_for_ever(placement);
  });
  EXPECT_EQ(exits[0].detail, "limit of 0.5 s");
  EXPECT_EQ(exits[1].kind, ExitKind::unfinished);
  EXPECT_EQ(exits[1].detail, "stopped by SIGSTOP");
  EXPECT_EQ(exits[1].cause, ExitCause::stopped);
  EXPECT_EQ(exits[1].limit_s, std::nullopt) << "that is why it did not finish";
}

/// A rank that lost a peer would report this as the end of its own collective.
TEST_F(Launch, NoRankSeesAnotherBeEnded) {
  constexpr int kRanks = 60;
  options_.limit = 500ms;
  std::array<int, 2> channel{};
  ASSERT_EQ(::pipe(channel.data()), 0);
  launch(kRanks, [&channel](const RankPlacement& placement) {
    pid_t first = ::getpid();
    for (int rank = 1; rank < kRanks && placement.rank == 0; ++rank) {
      if (::write(channel[1], &first, sizeof(first)) != sizeof(first)) return 1;
    }
    if (placement.rank == 0) return wait_for_ever(placement);
    if (::read(channel[0], &first, sizeof(first)) != sizeof(first)) return 2;
    pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, first, 0)), POLLIN, 0};
    std::cout << "waits" << std::endl;
    while (::poll(&end, 1, -1) < 0) {
    }
    std::cout << "rank 0 is gone" << std::endl;
    return wait_for_ever(placement);
  });
  for (const int fd : channel) ::close(fd);
  for (int rank = 1; rank < kRanks; ++rank) EXPECT_EQ(log(rank), "waits\n") << "rank " << rank;
}

TEST_F(Launch, OthersGetTheGraceOnceARankFailed) {
  options_.grace = 200ms;
  const auto exits = launch(3, [](const RankPlacement& placement) {
    if (placement.rank == 1) return 9;
    return placement.rank == 2 ? 0 : wait_for_ever(placement);
  });
  EXPECT_EQ(exits[0].kind, ExitKind::unfinished);
  EXPECT_EQ(exits[0].detail, "ended 0.2 s after rank 1 failed");
  EXPECT_EQ(exits[0].cause, ExitCause::peer_failed);
  EXPECT_EQ(exits[0].limit_s, std::nullopt);
  EXPECT_EQ(exits[0].order, 2);
  EXPECT_EQ(exits[1].code, 9);
  EXPECT_EQ(exits[2].kind, ExitKind::finished);
}

TEST_F(Launch, LimitHoldsWhereTheGraceIsLonger) {
  options_.limit = 500ms;
  const auto exits = launch(2, [](const RankPlacement& placement) {
    return placement.rank == 1 ? 9 : wait_for_ever(placement);
  });
  EXPECT_EQ(exits[0].detail, "limit of 0.5 s");
}

TEST_F(Launch, OrderOfEndingTellsWhoBegan) {
  std::array<int, 2> channel{};
  ASSERT_EQ(::pipe(channel.data()), 0);
  const auto exits = launch(2, [&channel](const RankPlacement& placement) {
    pid_t peer = ::getpid();
    if (placement.rank == 1)
      return ::write(channel[1], &peer, sizeof(peer)) == sizeof(peer) ? 5 : 6;
    const bool told = ::read(channel[0], &peer, sizeof(peer)) == sizeof(peer);
    return told && comes_true([peer] { return is_gone(peer); }) ? 7 : 8;
  });
  for (const int fd : channel) ::close(fd);
  EXPECT_EQ(exits[0].code, 7);
  EXPECT_EQ(exits[0].order, 1);
  EXPECT_EQ(exits[1].code, 5);
  EXPECT_EQ(exits[1].order, 0);
}

TEST_F(Launch, LastOutputIsTheLastTwentyLines) {
  const auto exits = launch(1, [](const RankPlacement&) {
    for (int line = 1; line <= 100; ++line) std::cout << "line " << line << " \xff\n";
    std::cout << "torn";
    return 1;
  });
  EXPECT_THAT(exits[0].last_output, StartsWith("line 82 \xff\nline 83"));
  EXPECT_THAT(exits[0].last_output, EndsWith("line 100 \xff\ntorn"));
}

TEST_F(Launch, LastOutputIsAtMostFourKibibytesAndBeginsWithALine) {
  const auto exits = launch(2, [](const RankPlacement& placement) {
    for (int line = 0; line < 15; ++line) {
      std::cout << "line " << std::string(placement.rank == 0 ? 501 : 506, 'x') << '\n';
    }
    return 1;
  });
  EXPECT_EQ(exits[0].last_output.size(), 8U * 507);
  EXPECT_EQ(exits[1].last_output.size(), 8U * 512) << "exactly what fits";
  for (const RankExit& end : exits) EXPECT_THAT(end.last_output, StartsWith("line x"));
}

TEST_F(Launch, LastOutputKeepsAnErrorAndNotItsStackFrames) {
  const auto exits = launch(1, [](const RankPlacement&) {
    std::cout << "Too many open files\nException raised from listen (most recent call first):\n";
    for (int i = 0; i < 200; ++i) {
      std::cout << "frame #" << i << ": c10d::TCPStore" << std::string(300, 'x') << "\n";
    }
    std::cout << "frame #x is a word\n";
    return 1;
  });
  EXPECT_EQ(exits[0].last_output,
            "Too many open files\nException raised from listen (most recent call first):\n"
            "frame #x is a word\n");
}

TEST_F(Launch, LastOutputOfOneEndlessLineIsItsEnd) {
  const auto exits = launch(1, [](const RankPlacement&) {
    std::cout << std::string(10'000, 'x') << "end\n";
    return 1;
  });
  EXPECT_EQ(exits[0].last_output.size(), 4096U);
  EXPECT_THAT(exits[0].last_output, EndsWith("xend\n"));
}

TEST(SignalName, IsTheUsualWord) {
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGRTMIN + 1), "signal 35");
}

}  // namespace
}  // namespace lockstep
