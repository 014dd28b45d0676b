// `lockstep diff` of trainings whose buffers were observed: buffers.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/layouts/forked_ranks.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// The trainings of all tests, run once.
class BufferTrainings {
 public:
  static const BufferTrainings& get() {
    static const BufferTrainings trainings;
    return trainings;
  }

  std::string diff(const std::string& runs, int status) const {
    const Outcome outcome = run_shell(
        fmt::format("cd {} && {} diff {}", folder_.path().string(), LOCKSTEP_PROGRAM, runs));
    EXPECT_EQ(outcome.status, status) << outcome.out << outcome.err;
    return unwrapped(outcome.out);
  }

 private:
  BufferTrainings() {
    const Outcome outcome = run_forked_ranks(
        "buffers", fmt::format("1 {0} single single-rate single-twice single-blind "
                               "-- 2 {0} ddp ddp-rate ddp-local ddp-twice fully_shard",
                               folder_.path().string()));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }

  TemporaryFolder folder_;
};

TEST(Buffers, OfHealthyLayoutsAreEqual) {
  for (const char* const other : {"ddp2", "fully_shard2"}) {
    const std::string said = BufferTrainings::get().diff(fmt::format("single1 {}", other), 0);
    EXPECT_THAT(said, HasSubstr("equal up to rounding in 4 steps, 1 to 4"));
    EXPECT_THAT(BufferTrainings::get().diff(fmt::format("single1 {} --format json", other), 0),
                HasSubstr("router.bias"));
  }
  // The second rank's statistics are its own in one of them, and begin as the first one's in the
  // other.
  BufferTrainings::get().diff("ddp2 fully_shard2", 0);
  EXPECT_THAT(BufferTrainings::get().diff("ddp2 ddp2", 0), HasSubstr("equal, bit for bit"));
}

TEST(Buffers, ThatAreStateDecide) {
  const std::string differs = "1 of 4 buffers differ in step 3, first that of router.bias: ";
  EXPECT_THAT(BufferTrainings::get().diff("single1 single1-rate", 1), HasSubstr(differs));
  EXPECT_THAT(BufferTrainings::get().diff("single1 ddp2-rate", 1),
              HasSubstr("buffers differ in step 3, first that of router.bias: "));
  EXPECT_THAT(BufferTrainings::get().diff("single1 ddp2-local", 1),
              HasSubstr("buffers differ in step 4, first that of router.bias on rank "));
  BufferTrainings::get().diff("single1 single1-blind", 0);  // nothing is known of B's
}

/// Of the same samples on each rank, and else they are told.
TEST(Buffers, ThatAreStatisticsDecideBetweenLayoutsThatAreAlike) {
  const std::string twice = BufferTrainings::get().diff("single1 single1-twice", 1);
  EXPECT_THAT(twice, HasSubstr("buffers differ in step 3"));
  EXPECT_THAT(twice, HasSubstr("norm.running_mean"));
  EXPECT_THAT(BufferTrainings::get().diff("ddp2 ddp2-twice", 1), HasSubstr("on rank 0"));
  EXPECT_THAT(
      BufferTrainings::get().diff("single1 ddp2-twice", 0),
      HasSubstr("A buffer differs from step 3 on, which decides nothing, since ranks may keep "
                "such statistics of their own samples: norm.num_batches_tracked"));
}

}  // namespace
}  // namespace lockstep
