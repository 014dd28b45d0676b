#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <set>
#include <string>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// No leftovers ------------------------------------------------------------------------------------

/// Starts a process that would run forever and writes its number. It is in the process group of the
/// rank, or in its own session.
void start_child(bool in_own_session) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (in_own_session) ::setsid();
    wait_for_ever({});
  }
  std::cout << pid << std::endl;
}

TEST_F(Launch, ChildrenOfARankGoWithItAndDelayNothing) {
  options_.limit = 600s;
  const auto begin = std::chrono::steady_clock::now();
  const auto exits = launch(4, [](const RankPlacement& placement) {
    start_child(placement.rank % 2 == 1);
    if (placement.rank >= 2) ::raise(SIGKILL);
    return 0;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(exits[0].kind, ExitKind::finished);
  EXPECT_EQ(exits[3].kind, ExitKind::signalled);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(::kill(std::stoi(log(rank)), 0), -1) << "child of rank " << rank;
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST_F(Launch, ChildrenOfARankDoNotOutliveItUntilTheOthersEnd) {
  const auto first_log = options_.folder / "rank-0.log";
  const auto exits = launch(2, [&first_log](const RankPlacement& placement) {
    if (placement.rank == 0) return start_child(false), 0;
    const bool gone = comes_true([&first_log] {
      const std::string written = text_if_there(first_log);
      return written.find('\n') != written.npos && is_gone(std::stoi(written));
    });
    return gone ? 0 : 1;
  });
  EXPECT_EQ(exits[1].kind, ExitKind::finished);
}

TEST_F(Launch, ChildrenOfARankGoWithItAtTheLimit) {
  options_.limit = 500ms;
  launch(2, [](const RankPlacement& placement) {
    start_child(placement.rank == 1);
    return wait_for_ever(placement);
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(::kill(std::stoi(log(rank)), 0), -1);
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// State of this process that a launch could change.
struct Belongings {
  std::set<std::string> descriptors = names_in("/proc/self/fd");
  std::string children = text_of("/proc/thread-self/children");
  struct sigaction on_child {};
  sigset_t mask{};
  int subreaper = -1;

  Belongings() {
    ::sigaction(SIGCHLD, nullptr, &on_child);
    ::sigprocmask(SIG_BLOCK, nullptr, &mask);
    ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
  }
};

TEST_F(Launch, LeavesNothingBehind) {
  const auto child_before = ::signal(SIGCHLD, SIG_IGN);
  options_.grace = 100ms;
  const std::set<std::string> shared_before = names_in("/dev/shm");
  const Belongings before;
  const auto exits = launch(4, [](const RankPlacement& placement) {
    std::cout << placement.rendezvous.port;
    start_child(false);
    return placement.rank == 0 ? 1 : wait_for_ever(placement);
  });
  const Belongings after;
  ::signal(SIGCHLD, child_before);
  EXPECT_EQ(exits[0].code, 1) << "although the caller ignores SIGCHLD";
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.children, before.children);
  EXPECT_EQ(after.on_child.sa_handler, SIG_IGN);
  EXPECT_EQ(::memcmp(&after.mask, &before.mask, sizeof(sigset_t)), 0);
  EXPECT_EQ(after.subreaper, before.subreaper);
  EXPECT_THAT(names_in(options_.folder),
              ::testing::ElementsAre("rank-0.log", "rank-1.log", "rank-2.log", "rank-3.log"));
  EXPECT_TRUE(comes_true([&shared_before] {
    const std::set<std::string> now = names_in("/dev/shm");
    return std::includes(shared_before.begin(), shared_before.end(), now.begin(), now.end());
  })) << "what other programs have there goes again, what was left behind stays";
}

TEST_F(Launch, LeavesNoSocketOpen) {
  launch(2, [](const RankPlacement& placement) {
    std::cout << placement.rendezvous.port;
    return 0;
  });
  Rendezvous rendezvous;
  rendezvous.port = std::stoi(log(0));
  EXPECT_EQ(connect_to(rendezvous), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

// A parent that is asked to end -------------------------------------------------------------------

/// A process that launches three ranks that wait forever; `prepare` runs in it first.
class Parent {
 public:
  Parent(const LaunchOptions& options, const std::function<void()>& prepare) {
    EXPECT_EQ(::pipe(channel_.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      prepare();
      end_with([&] { return be_parent(options); });
    }
    for (pid_t& rank : ranks_) {
      EXPECT_EQ(::read(channel_[0], &rank, sizeof(rank)), ssize_t{sizeof(rank)});
    }
  }
  ~Parent() {
    for (const int fd : channel_) ::close(fd);
  }

  const std::array<pid_t, 3>& ranks() const { return ranks_; }
  static void handle(int) { handled_ = handled_ + 1; }
  int status_after(std::initializer_list<int> signals) {
    for (const int signal : signals) ::kill(pid_, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    return status;
  }

 private:
  /// 10 if every rank is reported as interrupted and the handler ran once.
  int be_parent(LaunchOptions options) {
    options.ranks = 3;
    const auto exits = launch_ranks(options, [this](const RankPlacement& placement) {
      const pid_t own = ::getpid();
      if (::write(channel_[1], &own, sizeof(own)) != sizeof(own)) return 1;
      return wait_for_ever(placement);
    });
    for (const RankExit& end : exits) {
      if (end.detail != "interrupted by SIGTERM") return 11;
    }
    return handled_ == 1 ? 10 : 12;
  }

  static inline volatile sig_atomic_t handled_ = 0;

  std::array<int, 2> channel_{};
  std::array<pid_t, 3> ranks_{};
  pid_t pid_ = 0;
};

class InterruptedBy : public Launch, public ::testing::WithParamInterface<int> {};

TEST_P(InterruptedBy, ParentEndsItsRanksAndDiesOfTheSignal) {
  Parent parent(options_, [] { ::signal(GetParam(), SIG_DFL); });
  const int status = parent.status_after({GetParam()});
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  for (const pid_t rank : parent.ranks()) {
    EXPECT_EQ(::kill(rank, 0), -1) << "reaped before the parent went";
  }
}

INSTANTIATE_TEST_SUITE_P(Signal, InterruptedBy, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(Launch, KilledParentLeavesNoRanks) {
  Parent parent(options_, [] {});
  EXPECT_EQ(WTERMSIG(parent.status_after({SIGKILL})), SIGKILL);
  for (const pid_t rank : parent.ranks()) {
    EXPECT_TRUE(comes_true([rank] { return is_gone(rank); }));
  }
}

TEST_F(Launch, HandlerOfTheCallerGetsTheSignalAfterTheRanks) {
  Parent parent(options_, [] { ::signal(SIGTERM, Parent::handle); });
  EXPECT_EQ(WEXITSTATUS(parent.status_after({SIGTERM})), 10);
}

TEST_F(Launch, IgnoredSignalStaysIgnored) {
  Parent parent(options_, [] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGTERM, Parent::handle);
  });
  EXPECT_EQ(WEXITSTATUS(parent.status_after({SIGHUP, SIGTERM})), 10);
}

}  // namespace
}  // namespace lockstep
