#include "harness/cli/reading_progress.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(ReadingProgress, SaysHowMuchIsDoneAndHowLongTheRestTakes) {
  EXPECT_EQ(progress_in_words(40, 100, seconds(8)), "reading: 40 %, 12 s left");
  EXPECT_EQ(progress_in_words(99, 100, seconds(99)), "reading: 99 %, 1 s left");
}

TEST(ReadingProgress, SaysNothingOfTheRestWhereMoreIsReadThanThereWas) {
  EXPECT_EQ(progress_in_words(100, 100, seconds(8)), "reading");
  EXPECT_EQ(progress_in_words(150, 100, seconds(8)), "reading");
  EXPECT_EQ(progress_in_words(1, 0, seconds(8)), "reading");
}

TEST(ReadingProgress, SaysNothingOfTheRestBeforeItHasBegun) {
  EXPECT_EQ(progress_in_words(0, 100, seconds(8)), "reading");
}

}  // namespace
}  // namespace lockstep
