#include "harness/verdict/cost.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/record/collective_log.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

class CostOfACell : public testing::Test {
 protected:
  void call(int rank, const std::vector<std::int64_t>& steps, std::uint64_t bytes) const {
    CollectiveLog log(file(rank), rank);
    for (const std::int64_t step : steps) {
      Collective collective;
      collective.step = step;
      collective.operation = "allreduce";
      collective.bytes = bytes;
      log.leave(log.enter(collective), CollectiveState::completed);
    }
  }

  std::filesystem::path file(int rank) const {
    return folder_.path() / ("collectives-" + std::to_string(rank) + ".bin");
  }

  static RankExit finished(int rank, std::optional<double> step_s = std::nullopt) {
    RankExit end;
    end.rank = rank;
    end.step_s = step_s;
    return end;
  }

  std::optional<Cost> cost(const std::vector<RankExit>& exits, std::int64_t steps) const {
    return cost_of(folder_.path(), exits, steps);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(CostOfACell, IsTheAverageOfAStep) {
  call(0, {1, 1, 2, 4}, 24);
  const auto found = cost({finished(0)}, 4);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->collectives, 1);
  EXPECT_EQ(found->bytes, 24);
}

TEST_F(CostOfACell, LeavesOutWhatIsCalledBeforeTheFirstStepOrAfterTheLast) {
  call(0, {0, 0, 1, 2, 0}, 8);
  EXPECT_EQ(cost({finished(0)}, 2)->collectives, 1);
  EXPECT_EQ(cost({finished(0)}, 2)->bytes, 8);
}

TEST_F(CostOfACell, IsThatOfTheRankWithMost) {
  call(0, {1, 2}, 100);
  call(1, {1, 1, 1, 2}, 10);
  call(2, {1}, 10);
  const auto found = cost({finished(0, 0.25), finished(1, 0.5), finished(2, 0.125)}, 2);
  EXPECT_EQ(found->collectives, 2) << "of rank 1";
  EXPECT_EQ(found->bytes, 100) << "of rank 0";
  EXPECT_EQ(found->step_s, 0.5);
}

TEST_F(CostOfACell, IsNothingWithoutALog) {
  const auto found = cost({finished(0), finished(1)}, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Cost{});
  EXPECT_FALSE(found->step_s);
}

TEST_F(CostOfACell, IsAbsentWhereARankDidNotFinish) {
  call(0, {1}, 8);
  for (const ExitKind ending : {ExitKind::raised, ExitKind::exited, ExitKind::signalled,
                                ExitKind::unfinished, ExitKind::unstarted}) {
    RankExit other = finished(1);
    other.kind = ending;
    EXPECT_FALSE(cost({finished(0), other}, 1)) << name(ending);
  }
}

TEST_F(CostOfACell, RefusesAMalformedLog) {
  std::ofstream(file(0)) << "no log";
  EXPECT_THROW(cost({finished(0)}, 1), Error);
}

}  // namespace
}  // namespace lockstep
