#include "harness/cli/reading_progress.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::seconds;

TEST(ReadingProgress, SaysHowMuchIsDoneAndHowLongTheRestTakes) {
  EXPECT_EQ(progress_in_words(40, 100, seconds(8)), "reading: 40 %, 12 s left");
  EXPECT_EQ(progress_in_words(100, 100, seconds(8)), "reading: 100 %, 0 s left");
}

TEST(ReadingProgress, StaysWithinAllWhereMoreIsReadThanWasThere) {
  EXPECT_EQ(progress_in_words(150, 100, seconds(8)), "reading: 100 %, 0 s left");
  EXPECT_EQ(progress_in_words(1, 0, seconds(8)), "reading: 100 %, 0 s left");
}

TEST(ReadingProgress, SaysNothingOfTheRestBeforeItHasBegun) {
  EXPECT_EQ(progress_in_words(0, 100, seconds(8)), "reading");
}

}  // namespace
}  // namespace lockstep
