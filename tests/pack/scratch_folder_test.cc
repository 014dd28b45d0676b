// The folder of an unpacked pack does not outlive the process, whichever signal ends it.

#include "harness/pack/scratch_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Makes files in folders, and links that lead elsewhere.
void fill(const fs::path& folder, const fs::path& elsewhere) {
  fs::create_directories(folder / "job/inner");
  for (int i = 0; i < 300; ++i) write_text(folder / "job" / std::to_string(i), "text");
  write_text(folder / "job/inner/.hidden", "text");
  fs::create_directory_symlink(elsewhere, folder / "job/link");
}

/// How a process ends that does `work`, which has scratch folders in `temporary`: its status.
int status_of(const fs::path& temporary, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", temporary.c_str(), 1);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(ScratchFolder, IsRemovedBeforeASignalEndsTheProcess) {
  const TemporaryFolder temporary, elsewhere;
  write_text(elsewhere.path() / "mine", "text");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU}) {
    const int status = status_of(temporary.path(), [&] {
      const ScratchFolder first, second;
      for (const ScratchFolder* one : {&first, &second}) fill(one->path(), elsewhere.path());
      ::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
    EXPECT_TRUE(fs::is_empty(temporary.path())) << signal;
  }
  EXPECT_EQ(text_of(elsewhere.path() / "mine"), "text");
}

TEST(ScratchFolder, LeavesSignalsThatAreIgnoredOrHandledAlone) {
  const TemporaryFolder temporary;
  const int status = status_of(temporary.path(), [&] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGTERM, [](int) {});
    const ScratchFolder scratch;
    ::raise(SIGHUP);
    ::raise(SIGTERM);
    if (!fs::exists(scratch.path())) ::_exit(1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

TEST(ScratchFolder, IsNotRemovedByAChildOfTheProcess) {
  const TemporaryFolder temporary;
  const int status = status_of(temporary.path(), [&] {
    const ScratchFolder scratch;
    const int child = status_of(temporary.path(), [] { ::raise(SIGTERM); });
    if (!WIFSIGNALED(child) || !fs::exists(scratch.path())) ::_exit(1);
  });
  EXPECT_EQ(status, 0);
}

TEST(ScratchFolder, GivesTheSignalsBack) {
  const TemporaryFolder temporary;
  const int status = status_of(temporary.path(), [&] {
    for (int i = 0; i < 2; ++i) {
      const ScratchFolder scratch;
      write_text(scratch.path() / "file", "text");
    }
    struct sigaction action {};
    ::sigaction(SIGTERM, nullptr, &action);
    if (action.sa_handler != SIG_DFL || !fs::is_empty(temporary.path())) ::_exit(1);
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep
