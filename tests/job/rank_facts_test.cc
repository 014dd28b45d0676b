#include "harness/job/rank_facts.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "harness/record/rank_files.h"
#include "tests/command.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

/// Without a stack frame for each level.
TEST(FactsOfARank, AreRefusedIfTheyAreNestedInManyLevels) {
  const std::string lists = std::string(400'000, '[') + std::string(400'000, ']');
  for (const char* name : {"collectives", "groups", "precisions", "another"}) {
    const TemporaryFolder folder;
    const auto file = rank_file(folder.path(), 0, kFactsEnding);
    write_text(file, R"({"world_size": 2, "torch": "2.11.0", ")" + std::string(name) +
                         "\": " + lists + "}");
    EXPECT_NE(refusal_of(file, [&] { read_rank_facts(folder.path(), 0); }), "accepted") << name;
  }
}

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
