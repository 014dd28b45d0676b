#include "harness/launch/launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reports/error.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Body = std::function<int(const Seat&)>;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Asks until `condition` holds; false when it did not within ten seconds.
bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Whether there is no such process, or only its entry, which its new parent has yet to remove.
bool is_gone(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != stat.npos;
}

/// Ends a process that a test forked: an exception must not take it into the tests that follow.
[[noreturn]] void end_with(const std::function<int()>& body) {
  try {
    ::_exit(body());
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    ::_exit(101);
  }
}

int wait_for_ever(const Seat&) {
  for (;;) ::pause();
}

class Launch : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    options_.folder = pattern;
    options_.limit = 60s;
  }
  void TearDown() override { std::filesystem::remove_all(options_.folder); }

  std::vector<RankEnd> launch(int ranks, const Body& body) {
    options_.ranks = ranks;
    return launch_ranks(options_, body);
  }
  std::string log(int rank) const {
    return text_of(options_.folder / ("rank-" + std::to_string(rank) + ".log"));
  }
  /// The kind of error that the launch throws.
  std::optional<Error::Kind> refusal(int ranks) {
    try {
      launch(ranks, [](const Seat&) { return 0; });
      return std::nullopt;
    } catch (const Error& error) {
      return error.kind();
    }
  }

  LaunchOptions options_;
};

// Seats and the place to meet ---------------------------------------------------------------------

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

int connect_to(const Rendezvous& rendezvous) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(rendezvous.port));
  ::inet_pton(AF_INET, rendezvous.host.c_str(), &address.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? fd : -1;
}

/// Rank 0 hears from every other rank once.
int meet(const Seat& seat) {
  const auto own = static_cast<char>(seat.rank);
  if (seat.rank != 0) {
    const bool told = ::write(connect_to(seat.rendezvous), &own, 1) == 1;
    return told && seat.rendezvous.listen_fd == -1 && listening_sockets() == 0 ? 0 : 1;
  }
  std::set<char> met{own};
  for (int i = 1; i < seat.world_size; ++i) {
    char peer = 0;
    if (::read(::accept(seat.rendezvous.listen_fd, nullptr, nullptr), &peer, 1) != 1) return 2;
    met.insert(peer);
  }
  const bool all = static_cast<int>(met.size()) == seat.world_size;
  return all && *met.rbegin() == seat.world_size - 1 && listening_sockets() == 1 ? 0 : 3;
}

class LaunchOf : public Launch, public ::testing::WithParamInterface<int> {};

TEST_P(LaunchOf, RanksMeetFromTheirSeatsAndFinish) {
  const int ranks = GetParam();
  const std::vector<RankEnd> ends = launch(ranks, [ranks](const Seat& seat) {
    const bool right = seat.world_size == ranks && seat.local_rank == seat.rank &&
                       seat.local_world_size == ranks && seat.rank < ranks;
    return right ? meet(seat) : 4;
  });
  ASSERT_EQ(ends.size(), static_cast<std::size_t>(ranks));
  std::set<int> orders;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankEnd& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.rank, rank);
    EXPECT_EQ(end.ending, Ending::finished) << "rank " << rank << ": " << end.code;
    EXPECT_EQ(end.last_output, "");
    orders.insert(end.order);
  }
  EXPECT_EQ(orders.size(), ends.size());
  EXPECT_EQ(*orders.rbegin(), ranks - 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LaunchOf, ::testing::Values(1, 2, kMostRanks));

TEST_F(Launch, MostRanksNeedFewDescriptors) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{128, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const std::vector<RankEnd> ends = launch(kMostRanks, meet);
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const RankEnd& end : ends) EXPECT_EQ(end.ending, Ending::finished);
}

TEST_F(Launch, CanBeRepeated) {
  const std::filesystem::path folder = options_.folder;
  for (int i = 0; i < 30; ++i) {
    options_.folder = folder / std::to_string(i);
    std::filesystem::create_directory(options_.folder);
    for (const RankEnd& end : launch(4, meet)) ASSERT_EQ(end.ending, Ending::finished);
  }
  options_.folder = folder;
}

// What a rank starts with -------------------------------------------------------------------------

TEST_F(Launch, RankHasDefaultSignalsEmptyInputAndOneThread) {
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const int input_before = ::dup(STDIN_FILENO);
  const int zeros = ::open("/dev/zero", O_RDONLY);
  ::dup2(zeros, STDIN_FILENO);
  const char* const omp = ::getenv("OMP_NUM_THREADS");
  const std::string threads = omp != nullptr ? omp : "1";
  const auto ends = launch(1, [&threads](const Seat&) {
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
  EXPECT_EQ(ends[0].code, 0);
}

TEST_F(Launch, OutputGoesToTheRanksOwnLog) {
  std::cout << "buffered before the launch";
  std::printf("buffered before the launch");
  launch(2, [](const Seat& seat) {
    std::cout << "out of " << seat.rank << '\n';
    std::cerr << "err of " << seat.rank << '\n';
    if (::fork() == 0) {
      std::cout << "child of " << seat.rank << std::endl;
      ::_exit(0);
    }
    ::wait(nullptr);
    std::printf("torn by %d", seat.rank);
    return 0;
  });
  std::cout << std::endl;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string n = std::to_string(rank);
    EXPECT_EQ(log(rank), "out of " + n + "\nerr of " + n + "\nchild of " + n + "\ntorn by " + n);
  }
}

// Endings -----------------------------------------------------------------------------------------

TEST_F(Launch, StatusOfARankIsWhatItsBodyReturns) {
  const auto ends = launch(3, [](const Seat& seat) { return seat.rank * 7; });
  EXPECT_EQ(ends[0].ending, Ending::finished);
  EXPECT_EQ(ends[1].ending, Ending::exited);
  EXPECT_EQ(ends[1].code, 7);
  EXPECT_EQ(ends[2].code, 14);
}

TEST_F(Launch, ExitInsideTheBodyIsTold) {
  const auto ends = launch(2, [](const Seat& seat) {
    if (seat.rank == 1) std::exit(3);
    return 0;
  });
  EXPECT_EQ(ends[0].ending, Ending::finished);
  EXPECT_EQ(ends[1].ending, Ending::exited);
  EXPECT_EQ(ends[1].code, 3);
}

TEST_F(Launch, SignalIsNamed) {
  const std::array<int, 3> signals{SIGABRT, SIGSEGV, SIGKILL};
  const auto ends = launch(3, [&signals](const Seat& seat) {
    if (seat.rank == 0) std::abort();
    return ::raise(signals[static_cast<std::size_t>(seat.rank)]);
  });
  const std::array<std::string, 3> names{"SIGABRT", "SIGSEGV", "SIGKILL"};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ends[rank].ending, Ending::signalled);
    EXPECT_EQ(ends[rank].code, signals[rank]);
    EXPECT_EQ(ends[rank].detail, names[rank]);
  }
}

TEST_F(Launch, ExceptionIsPrintedAndEndsTheRankWith70) {
  const auto ends = launch(2, [](const Seat& seat) -> int {
    std::cout << "before\n";
    if (seat.rank == 0) throw std::runtime_error("the weights left");
    throw 5;
  });
  EXPECT_EQ(ends[0].ending, Ending::exited);
  EXPECT_EQ(ends[0].code, 70);
  EXPECT_EQ(ends[0].last_output, "before\nuncaught exception: the weights left\n");
  EXPECT_EQ(log(0), ends[0].last_output);
  EXPECT_EQ(ends[1].code, 70);
}

TEST_F(Launch, RankThatWaitsForEverIsEndedAtTheLimit) {
  options_.limit = 500ms;
  const auto ends = launch(2, [](const Seat& seat) {
    std::cout << "waiting" << std::endl;
    return seat.rank == 1 ? wait_for_ever(seat) : 0;
  });
  EXPECT_EQ(ends[0].ending, Ending::finished);
  EXPECT_EQ(ends[0].order, 0);
  EXPECT_EQ(ends[0].last_output, "") << "it has nothing to explain";
  EXPECT_EQ(ends[1].ending, Ending::unfinished);
  EXPECT_EQ(ends[1].detail, "limit of 0.5 s");
  EXPECT_EQ(ends[1].last_output, "waiting\n");
}

TEST_F(Launch, WholeSecondsPrintWithoutAPoint) {
  options_.limit = 1s;
  EXPECT_EQ(launch(1, wait_for_ever)[0].detail, "limit of 1 s");
}

TEST_F(Launch, StoppedRankIsToldFromASlowOne) {
  options_.limit = 500ms;
  const auto ends = launch(2, [](const Seat& seat) {
    if (seat.rank == 1) ::raise(SIGSTOP);
    return wait_for_ever(seat);
  });
  EXPECT_EQ(ends[0].detail, "limit of 0.5 s");
  EXPECT_EQ(ends[1].ending, Ending::unfinished);
  EXPECT_EQ(ends[1].detail, "stopped by SIGSTOP");
}

TEST_F(Launch, OthersGetTheGraceOnceARankFailed) {
  options_.grace = 200ms;
  const auto ends = launch(3, [](const Seat& seat) {
    if (seat.rank == 1) return 9;
    return seat.rank == 2 ? 0 : wait_for_ever(seat);
  });
  EXPECT_EQ(ends[0].ending, Ending::unfinished);
  EXPECT_EQ(ends[0].detail, "ended 0.2 s after rank 1 failed");
  EXPECT_EQ(ends[0].order, 2);
  EXPECT_EQ(ends[1].code, 9);
  EXPECT_EQ(ends[2].ending, Ending::finished);
}

TEST_F(Launch, LimitHoldsWhereTheGraceIsLonger) {
  options_.limit = 500ms;
  const auto ends =
      launch(2, [](const Seat& seat) { return seat.rank == 1 ? 9 : wait_for_ever(seat); });
  EXPECT_EQ(ends[0].detail, "limit of 0.5 s");
}

TEST_F(Launch, OrderOfEndingTellsWhoBegan) {
  std::array<int, 2> channel{};
  ASSERT_EQ(::pipe(channel.data()), 0);
  const auto ends = launch(2, [&channel](const Seat& seat) {
    pid_t peer = ::getpid();
    if (seat.rank == 1) return ::write(channel[1], &peer, sizeof(peer)) == sizeof(peer) ? 5 : 6;
    const bool told = ::read(channel[0], &peer, sizeof(peer)) == sizeof(peer);
    return told && comes_true([peer] { return is_gone(peer); }) ? 7 : 8;
  });
  for (const int fd : channel) ::close(fd);
  EXPECT_EQ(ends[0].code, 7);
  EXPECT_EQ(ends[0].order, 1);
  EXPECT_EQ(ends[1].code, 5);
  EXPECT_EQ(ends[1].order, 0);
}

TEST_F(Launch, LastOutputIsTheLastTwentyLines) {
  const auto ends = launch(1, [](const Seat&) {
    for (int line = 1; line <= 100; ++line) std::cout << "line " << line << " \xff\n";
    std::cout << "torn";
    return 1;
  });
  EXPECT_THAT(ends[0].last_output, StartsWith("line 82 \xff\nline 83"));
  EXPECT_THAT(ends[0].last_output, EndsWith("line 100 \xff\ntorn"));
}

TEST_F(Launch, LastOutputIsAtMostFourKibibytesAndBeginsWithALine) {
  const auto ends = launch(2, [](const Seat& seat) {
    for (int line = 0; line < 15; ++line) {
      std::cout << "line " << std::string(seat.rank == 0 ? 501 : 506, 'x') << '\n';
    }
    return 1;
  });
  EXPECT_EQ(ends[0].last_output.size(), 8U * 507);
  EXPECT_EQ(ends[1].last_output.size(), 8U * 512) << "exactly what fits";
  for (const RankEnd& end : ends) EXPECT_THAT(end.last_output, StartsWith("line x"));
}

TEST_F(Launch, LastOutputOfOneEndlessLineIsItsEnd) {
  const auto ends = launch(1, [](const Seat&) {
    std::cout << std::string(10'000, 'x') << "end\n";
    return 1;
  });
  EXPECT_EQ(ends[0].last_output.size(), 4096U);
  EXPECT_THAT(ends[0].last_output, EndsWith("xend\n"));
}

// Nothing stays behind ----------------------------------------------------------------------------

/// Starts a process that would live for ever and writes its number; in the process group of the
/// rank, or in a session of its own.
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
  const auto ends = launch(4, [](const Seat& seat) {
    start_child(seat.rank % 2 == 1);
    if (seat.rank >= 2) ::raise(SIGKILL);
    return 0;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(ends[0].ending, Ending::finished);
  EXPECT_EQ(ends[3].ending, Ending::signalled);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(::kill(std::stoi(log(rank)), 0), -1) << "child of rank " << rank;
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST_F(Launch, ChildrenOfARankDoNotOutliveItUntilTheOthersEnd) {
  const auto first_log = options_.folder / "rank-0.log";
  const auto ends = launch(2, [&first_log](const Seat& seat) {
    if (seat.rank == 0) return start_child(false), 0;
    const bool gone = comes_true([&first_log] {
      const std::string written = text_of(first_log);
      return written.find('\n') != written.npos && is_gone(std::stoi(written));
    });
    return gone ? 0 : 1;
  });
  EXPECT_EQ(ends[1].ending, Ending::finished);
}

TEST_F(Launch, ChildrenOfARankGoWithItAtTheLimit) {
  options_.limit = 500ms;
  launch(2, [](const Seat& seat) {
    start_child(seat.rank == 1);
    return wait_for_ever(seat);
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

/// What a launch could change in this process.
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
  const auto ends = launch(4, [](const Seat& seat) {
    std::cout << seat.rendezvous.port;
    start_child(false);
    return seat.rank == 0 ? 1 : wait_for_ever(seat);
  });
  const Belongings after;
  ::signal(SIGCHLD, child_before);
  EXPECT_EQ(ends[0].code, 1) << "although the caller ignores SIGCHLD";
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
  launch(2, [](const Seat& seat) {
    std::cout << seat.rendezvous.port;
    return 0;
  });
  Rendezvous rendezvous;
  rendezvous.port = std::stoi(log(0));
  EXPECT_EQ(connect_to(rendezvous), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

// A parent that is asked to end -------------------------------------------------------------------

/// A process that launches three ranks which wait for ever; `prepare` runs in it before.
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
  /// 10 when every rank is told to be interrupted and the handler ran once.
  int be_parent(LaunchOptions options) {
    options.ranks = 3;
    const auto ends = launch_ranks(options, [this](const Seat& seat) {
      const pid_t own = ::getpid();
      if (::write(channel_[1], &own, sizeof(own)) != sizeof(own)) return 1;
      return wait_for_ever(seat);
    });
    for (const RankEnd& end : ends) {
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

// Refusals ----------------------------------------------------------------------------------------

TEST_F(Launch, ManyThreadsAreADefect) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::thread second([&mutex] { const std::lock_guard until_released(mutex); });
  const auto kind = refusal(1);
  lock.unlock();
  second.join();
  EXPECT_EQ(kind, Error::Kind::internal);
}

TEST_F(Launch, NumberOfRanksIsChecked) {
  for (const int ranks : {-1, 0, kMostRanks + 1}) EXPECT_EQ(refusal(ranks), Error::Kind::usage);
}

TEST_F(Launch, FolderHasToTakeTheLogs) {
  const std::filesystem::path folder = options_.folder;
  options_.folder = folder / "missing";
  EXPECT_EQ(refusal(2), Error::Kind::usage);
  options_.folder = folder / "file";
  std::ofstream(options_.folder) << "text";
  EXPECT_EQ(refusal(2), Error::Kind::usage);
  options_.folder = folder;
}

TEST_F(Launch, ExistingLogIsNotOverwritten) {
  std::ofstream(options_.folder / "rank-1.log") << "of an earlier run";
  EXPECT_EQ(refusal(2), Error::Kind::usage);
  EXPECT_EQ(log(1), "of an earlier run");
}

/// Runs `body` in a process of a user who may have `processes` of them. Returns what it returns.
int with_few_processes(rlim_t processes, const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit limit{processes, processes};
    const auto nobody_else = static_cast<uid_t>(1'000'000'000 + ::getpid());
    if (::setrlimit(RLIMIT_NPROC, &limit) != 0 || ::setuid(nobody_else) != 0) ::_exit(100);
    end_with(body);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

TEST_F(Launch, RanksThatCannotBeStartedEndTheOthers) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become a user without processes";
  ::chmod(options_.folder.c_str(), 0777);
  const int outcome = with_few_processes(3, [this] {
    const auto ends = launch(4, wait_for_ever);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      if (ends[rank].ending != Ending::unfinished) return 1;
      if (ends[rank].detail != "ended because rank 2 could not be started") return 2;
      if (ends[rank + 2].ending != Ending::unstarted) return 3;
      if (ends[rank + 2].detail != "Resource temporarily unavailable") return 4;
    }
    return ends[3].order == 3 ? 0 : 5;
  });
  EXPECT_EQ(outcome, 0);
}

TEST_F(Launch, NoProcessAtAllIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become a user without processes";
  ::chmod(options_.folder.c_str(), 0777);
  const int outcome = with_few_processes(1, [this] { return static_cast<int>(*refusal(2)); });
  EXPECT_EQ(outcome, static_cast<int>(Error::Kind::usage));
}

TEST(SignalName, IsTheUsualWord) {
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGRTMIN + 1), "signal 35");
}

}  // namespace
}  // namespace lockstep
