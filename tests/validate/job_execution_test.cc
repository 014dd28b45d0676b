#include "harness/validate/job_execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(JobExecution, IsThatOfAllRanks) {
  const TemporaryFolder folder;
  write_text(folder.path() / "rank-0.execution.json",
             R"({"roots": ["/x"], "files": {"/x/a.py": "1"}, "seed": 7, "device": "CPU",
                 "versions": {"torch": "2.11.0"},
                 "lines": {"/x/a.py": {"code": [1, 2, 5], "executed": [1]}}})");
  write_text(
      folder.path() / "rank-1.execution.json",
      R"({"roots": ["/x"], "files": {"/x/b.py": "2"}, "lines": {"/x/a.py": {"code": [1], "executed": [2]}}})");
  const JobExecution all = read_execution(folder.path());
  EXPECT_TRUE(all.is_known);
  EXPECT_THAT(all.digests, ElementsAre(Pair("/x/a.py", "1"), Pair("/x/b.py", "2")));
  EXPECT_THAT(all.roots, ElementsAre("/x"));
  EXPECT_THAT(all.versions, ElementsAre(Pair("torch", "2.11.0")));
  EXPECT_THAT(all.devices, ElementsAre("CPU"));
  EXPECT_EQ(all.seed, 7);
  EXPECT_THAT(all.lines.at("/x/a.py").code, ElementsAre(1, 2, 5));
  EXPECT_THAT(all.lines.at("/x/a.py").executed, ElementsAre(1, 2));
}

/// A watched job may write anything into its folder.
TEST(JobExecution, LeavesOutWhatIsOfAnotherKind) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_execution(folder.path()).is_known);
  write_text(folder.path() / "rank-0.execution.json", "torn");
  write_text(folder.path() / "rank-1.execution.json", "[1, 2]");
  EXPECT_FALSE(read_execution(folder.path()).is_known);
  write_text(folder.path() / "rank-2.execution.json",
             R"({"roots": "x", "files": {"/x/c.py": 3}, "versions": [1], "device": 4,
                 "seed": 1.5,
                 "lines": {"/x/a.py": 3, "/x/b.py": {"code": ["a"]}}})");
  const JobExecution all = read_execution(folder.path());
  EXPECT_TRUE(all.is_known);
  EXPECT_THAT(all.digests, IsEmpty());
  EXPECT_THAT(all.lines.at("/x/b.py").code, IsEmpty());
  EXPECT_FALSE(all.seed);
}

}  // namespace
}  // namespace lockstep
