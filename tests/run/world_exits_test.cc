#include "harness/run/world_exits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "harness/launch/launch.h"
#include "harness/record/collective_log.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"
#include "harness/run/run_cell.h"
#include "reports/record/exit_cause.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

/// Files of three ranks of a launcher in the folder of their cell.
class LeftByThreeRanks : public testing::Test {
 protected:
  void leave_log(int rank) const { std::ofstream(rank_log(folder_.path(), rank)) << "a line\n"; }

  void leave_word(int rank, ExitKind ending) const {
    LaunchedExit exit;
    exit.process = process_identity(cell_, rank);
    exit.end.rank = rank;
    exit.end.kind = ending;
    exit.end.code = 1;
    exit.world_size = 3;
    exit.launcher = "Slurm's srun";
    exit.ended_s = 1'795'293'672;
    write_rank_exit(folder_.path(), exit);
  }

  void state_error(int rank, const std::string& error) const {
    RankStatus status;
    status.process = process_identity(cell_, rank);
    status.ended = status.raised = true;
    status.error = error;
    if (is_loss_of_peer(error)) status.cause = ExitCause::lost_peer;
    write_rank_status(rank_status_file(folder_.path(), rank), status);
  }

  /// A rank without an exit file that was working until this long ago.
  void leave_sign(int rank, std::chrono::seconds before) const {
    leave_log(rank);
    const auto file = rank_here_file(folder_.path(), rank);
    std::ofstream(file) << "";
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - before);
  }

  void meet(int rank) const {
    CollectiveLog log(collective_log_file(folder_.path(), rank), rank);
    Collective join;
    join.operation = kJoin;
    join.group = "world";
    log.leave(log.enter(join), CollectiveState::completed);
  }

  bool is_empty() const {
    WorldExits exits(folder_.path(), cell_);
    exits.look();
    return exits.is_empty();
  }

  std::vector<RankExit> exits() const {
    WorldExits exits(folder_.path(), cell_);
    exits.look();
    CellRecord record;
    record.cell = cell_;
    record.processes = cell_.world_size;
    record.exits = exits.exits("no word of it");
    exits.tell_whom_the_launcher_ended(record.exits);
    complete_record(record, folder_.path());
    return record.exits;
  }

  std::vector<ExitKind> endings() const {
    std::vector<ExitKind> endings;
    for (const RankExit& end : exits()) endings.push_back(end.kind);
    return endings;
  }

 private:
  static Cell cell_of_three() {
    Cell cell;
    cell.world_size = 3;
    return cell;
  }

  Cell cell_ = cell_of_three();
  TemporaryFolder folder_;
};

TEST_F(LeftByThreeRanks, ALogWithoutAWordIsOfARankThatDidNotFinish) {
  leave_log(0);
  leave_word(1, ExitKind::exited);
  EXPECT_THAT(endings(),
              testing::ElementsAre(ExitKind::unfinished, ExitKind::exited, ExitKind::unstarted));
}

TEST_F(LeftByThreeRanks, ARendezvousOfOneSaysThatAllWereStarted) {
  meet(2);
  EXPECT_THAT(endings(), testing::Each(ExitKind::unfinished));
}

TEST_F(LeftByThreeRanks, AnErrorThatARankStatedItselfIsItsEnd) {
  for (int rank = 0; rank < 3; ++rank) leave_log(rank);
  state_error(1, "the genuine reason");
  const std::vector<RankExit> left = exits();
  EXPECT_EQ(left[1].kind, ExitKind::raised);
  EXPECT_EQ(left[1].error, "the genuine reason");
  EXPECT_LT(left[1].order, left[0].order);
  EXPECT_LT(left[1].order, left[2].order);
}

TEST_F(LeftByThreeRanks, AWordComesBeforeWhatIsLost) {
  leave_log(0);
  leave_log(1);
  state_error(1, "the genuine reason");
  leave_word(2, ExitKind::exited);
  const std::vector<RankExit> left = exits();
  EXPECT_EQ(left[2].order, 0);
  EXPECT_EQ(left[1].order, 1);
  EXPECT_EQ(left[0].order, 2);
}

TEST_F(LeftByThreeRanks, TheLauncherEndedWhoWasAtWorkWhenAnotherFailed) {
  leave_sign(0, 1s);
  leave_sign(1, 30s);
  leave_word(2, ExitKind::exited);
  const std::vector<RankExit> left = exits();
  EXPECT_EQ(left[0].cause, ExitCause::peer_failed);
  EXPECT_EQ(left[0].detail, "ended by its launcher after rank 2 failed");
  EXPECT_EQ(left[1].cause, ExitCause::unseen);
}

TEST_F(LeftByThreeRanks, TheLauncherEndedWhoWasAtWorkWhenAnotherSaidThatItFailed) {
  leave_sign(0, 1s);
  leave_sign(1, 1s);
  state_error(1, "the genuine reason");
  leave_word(2, ExitKind::finished);
  const std::vector<RankExit> left = exits();
  EXPECT_EQ(left[0].cause, ExitCause::peer_failed);
  EXPECT_EQ(left[0].detail, "ended by its launcher after rank 1 failed");
  EXPECT_EQ(left[1].kind, ExitKind::raised);
  EXPECT_EQ(left[1].cause, ExitCause::none);
}

TEST_F(LeftByThreeRanks, NobodyIsKnownToHaveBeenEndedWhereNobodyFailed) {
  leave_sign(0, 1s);
  leave_word(1, ExitKind::finished);
  leave_word(2, ExitKind::finished);
  EXPECT_EQ(exits()[0].cause, ExitCause::unseen);
}

TEST_F(LeftByThreeRanks, NothingIsASignThatNoneWasStarted) {
  EXPECT_TRUE(is_empty());
  leave_log(2);
  EXPECT_FALSE(is_empty());
}

/// A lost peer is no failure of the rank itself, and the rank that died first is unknown.
TEST_F(LeftByThreeRanks, NobodyIsEndedForARankThatLostAPeer) {
  leave_sign(0, 1s);
  leave_sign(1, 0s);
  leave_sign(2, 0s);
  state_error(1, "Connection closed by peer [127.0.0.1]:1234");
  for (const RankExit& end : exits()) {
    EXPECT_THAT(end.detail, Not(HasSubstr("after rank"))) << end.rank;
  }
}

}  // namespace
}  // namespace lockstep
