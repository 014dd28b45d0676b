#include "harness/record/run_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/folder_lock.h"
#include "reports/base/error.h"
#include "reports/base/unique_fd.h"
#include "tests/command.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kProcesses = 8;

/// Processes that all ask for one folder at once.
class Rivals {
 public:
  explicit Rivals(const fs::path& folder) {
    EXPECT_EQ(::pipe(start_.data()), 0);
    for (pid_t& pid : pids_) {
      pid = ::fork();
      if (pid == 0) ::_exit(ask_for(folder));
    }
    ::close(start_[0]);
    ::close(start_[1]);  // releases the waiting processes
  }

  /// How many got it, and how many were told that it is not empty.
  std::pair<int, int> won_and_refused() {
    std::pair<int, int> counts{0, 0};
    for (const pid_t pid : pids_) {
      int status = 0;
      ::waitpid(pid, &status, 0);
      counts.first += WEXITSTATUS(status) == 0;
      counts.second += WEXITSTATUS(status) == 1;
    }
    return counts;
  }

 private:
  int ask_for(const fs::path& folder) const {
    char nothing = 0;
    ::close(start_[1]);
    if (::read(start_[0], &nothing, 1) != 0) return 3;
    try {
      make_run_folder(folder, RunRecord{});
      return 0;
    } catch (const Error& error) {
      return std::string(error.what()).find("not empty") != std::string::npos ? 1 : 2;
    }
  }

  std::array<int, 2> start_{};
  std::array<pid_t, kProcesses> pids_{};
};

TEST(RunFolder, GoesToOneOfManyThatAskForItAtOnce) {
  const TemporaryFolder folder;
  for (int round = 0; round < 50; ++round) {
    Rivals rivals(folder.path() / std::to_string(round));
    EXPECT_EQ(rivals.won_and_refused(), std::pair(1, kProcesses - 1)) << "round " << round;
  }
}

TEST(RunFolder, ThatWasMadeBeforeGoesToOneOfManyToo) {
  const TemporaryFolder folder;
  for (int round = 0; round < 50; ++round) {
    const fs::path made = folder.path() / std::to_string(round);
    fs::create_directory(made);
    Rivals rivals(made);
    EXPECT_EQ(rivals.won_and_refused(), std::pair(1, kProcesses - 1)) << "round " << round;
  }
}

TEST(RunFolder, HoldsARecordFromTheBeginning) {
  const TemporaryFolder folder;
  const fs::path run = make_run_folder(folder.path() / "run", RunRecord{});
  EXPECT_EQ(load_record(run), RunRecord{});
}

TEST(RunFolder, SaysWhyItsRecordCannotBeLookedAt) {
  const TemporaryFolder folder;
  const auto refusal = [&] {
    return refusal_of("Cannot read " + folder.path().string(), [&] { load_record(folder.path()); });
  };
  EXPECT_EQ(refusal(), ": it holds no record.json. Name the folder of a run.");
  fs::create_symlink("record.json", folder.path() / "record.json");
  EXPECT_EQ(refusal(), ": Too many levels of symbolic links. Name the folder of a run.");
}

TEST(RunFolder, IsNotInUseBecauseAnotherAsksAtTheSameMoment) {
  const TemporaryFolder folder;
  {
    const UniqueFd other(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), 0);
    EXPECT_FALSE(is_locked(folder.path()));
  }
  const FolderLock lock(folder.path());
  EXPECT_TRUE(is_locked(folder.path()));
}

/// As the last ranks of a job do where a file system has no locks.
TEST(RunFolder, KeepsAWholeRecordWhileSeveralProcessesSaveIt) {
  const TemporaryFolder folder;
  RunRecord run;
  run.notes.assign(1'000, "a note");
  const pid_t other = ::fork();
  int faults = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      save_record(folder.path(), run);
      if (load_record(folder.path()) != run) ++faults;
    } catch (const std::exception&) {
      ++faults;
    }
  }
  if (other == 0) ::_exit(faults == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(faults, 0);
}

}  // namespace
}  // namespace lockstep
