#include "harness/record/rank_exit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

LaunchedExit literal_exit() {
  LaunchedExit exit;
  exit.end.rank = 3;
  exit.end.kind = ExitKind::signalled;
  exit.end.code = 9;
  exit.end.detail = "SIGKILL";
  exit.world_size = 4;
  exit.launcher = "Open MPI's mpirun";
  exit.host = "node7";
  exit.ended_s = 1795293672.2776473;
  exit.end.ended_ns = 40122776473251;
  return exit;
}

TEST(LaunchedExitFile, ReadsBack) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_rank_exit(folder.path(), 3).has_value());
  write_rank_exit(folder.path(), literal_exit());
  EXPECT_TRUE(fs::exists(folder.path() / "rank-3.exit.json"));
  const auto read = read_rank_exit(folder.path(), 3);
  EXPECT_EQ(read->end, literal_exit().end);
  EXPECT_EQ(read->world_size, 4);
  EXPECT_EQ(read->launcher, "Open MPI's mpirun");
  EXPECT_EQ(read->host, "node7");
  EXPECT_EQ(read->ended_s, literal_exit().ended_s);
}

TEST(LaunchedExitFile, KeepsTheLimitThatTheRankWasEndedAt) {
  const TemporaryFolder folder;
  LaunchedExit exit = literal_exit();
  exit.end.limit_s = 2.5;
  exit.end.cause = ExitCause::time_limit;
  write_rank_exit(folder.path(), exit);
  EXPECT_EQ(read_rank_exit(folder.path(), 3)->end, exit.end);
}

TEST(LaunchedExitFile, OfAnotherRankIsMalformed) {
  const TemporaryFolder folder;
  write_rank_exit(folder.path(), literal_exit());
  fs::rename(rank_exit_file(folder.path(), 3), rank_exit_file(folder.path(), 2));
  EXPECT_THROW(read_rank_exit(folder.path(), 2), Error);
}

TEST(LaunchedExitFile, OfAnythingElseIsMalformed) {
  const TemporaryFolder folder;
  for (const char* text : {"", "{}", "[3]", "{\"rank\": 3, \"kind\": \"vanished\"}"}) {
    std::ofstream(rank_exit_file(folder.path(), 3)) << text;
    EXPECT_THROW(read_rank_exit(folder.path(), 3), Error) << text;
  }
}

TEST(WorldFile, ReadsBack) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_world(folder.path()).has_value());
  write_world(folder.path(), {"node0", 29500, "token"});
  const auto read = read_world(folder.path());
  EXPECT_EQ(read->host, "node0");
  EXPECT_EQ(read->port, 29500);
  EXPECT_EQ(read->token, "token");
}

}  // namespace
}  // namespace lockstep
