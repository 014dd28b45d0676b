#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "reports/base/error.h"
#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

/// The kind of error that the launch throws.
std::optional<Error::Kind> refusal(LaunchOptions options, int ranks) {
  options.ranks = ranks;
  try {
    launch_ranks(options, [](const RankPlacement&) { return 0; });
    return std::nullopt;
  } catch (const Error& error) {
    return error.kind();
  }
}

TEST_F(Launch, ManyThreadsAreADefect) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::thread second([&mutex] { const std::lock_guard until_released(mutex); });
  const auto kind = refusal(options_, 1);
  lock.unlock();
  second.join();
  EXPECT_EQ(kind, Error::Kind::internal);
}

TEST_F(Launch, NumberOfRanksIsChecked) {
  for (const int ranks : {-1, 0, kMostRanksOfCell + 1})
    EXPECT_EQ(refusal(options_, ranks), Error::Kind::usage);
}

TEST_F(Launch, FolderHasToTakeTheLogs) {
  options_.folder = folder_.path() / "missing";
  EXPECT_EQ(refusal(options_, 2), Error::Kind::usage);
  options_.folder = folder_.path() / "file";
  write_text(options_.folder, "text");
  EXPECT_EQ(refusal(options_, 2), Error::Kind::usage);
}

TEST_F(Launch, ExistingLogIsNotOverwritten) {
  write_text(options_.folder / "rank-1.log", "of an earlier run");
  EXPECT_EQ(refusal(options_, 2), Error::Kind::usage);
  EXPECT_EQ(log(1), "of an earlier run");
}

/// Runs `body` in a process of a user with a limit of `processes`. Returns its result.
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
    const auto exits = launch(4, wait_for_ever);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      if (exits[rank].kind != ExitKind::unfinished) return 1;
      if (exits[rank].detail != "ended because rank 2 could not be started") return 2;
      if (exits[rank + 2].kind != ExitKind::unstarted) return 3;
      if (exits[rank + 2].detail != "Resource temporarily unavailable") return 4;
    }
    return exits[3].order == 3 ? 0 : 5;
  });
  EXPECT_EQ(outcome, 0);
}

TEST_F(Launch, NoProcessAtAllIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become a user without processes";
  ::chmod(options_.folder.c_str(), 0777);
  const int outcome =
      with_few_processes(1, [this] { return static_cast<int>(*refusal(options_, 2)); });
  EXPECT_EQ(outcome, static_cast<int>(Error::Kind::usage));
}

}  // namespace
}  // namespace lockstep
