#include "harness/job/process_notes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

TEST(ReachOfProcesses, IsThatOfTheOneThatCameFarthest) {
  const TemporaryFolder folder;
  EXPECT_EQ(reach_of_processes(folder.path()), Reach::no_python);
  write_text(folder.path() / "watch.loaded", "python\npython\n");
  EXPECT_EQ(reach_of_processes(folder.path()), Reach::no_torch);
  write_text(folder.path() / "watch.loaded", "python\ntorch\npython\n");
  EXPECT_EQ(reach_of_processes(folder.path()), Reach::no_step);
}

/// A job may put anything there; a pipe that nobody writes would never end.
TEST(ReachOfProcesses, IsUnknownIfAPipeIsInThePlaceOfTheFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "watch.loaded").c_str(), 0600), 0);
  EXPECT_EQ(reach_of_processes(folder.path()), Reach::unknown);
}

}  // namespace
}  // namespace lockstep
