#include "harness/listing/rows.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Cut, LeavesWhatFits) {
  EXPECT_EQ(cut("abcdef", 6), "abcdef");
  EXPECT_EQ(cut("abcdef", 5), "ab...");
  EXPECT_EQ(cut("abcdef", 3), "...");
  EXPECT_EQ(cut("abcdef", 1), ".");
  EXPECT_EQ(cut("", 0), "");
}

TEST(Cut, CountsCharactersAndCutsNone) {
  EXPECT_EQ(cut("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4), "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
  EXPECT_EQ(cut("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4), "\xc3\xa9...");
}

TEST(CutRows, PadEveryColumnButTheLast) {
  EXPECT_EQ(cut_rows({{"a", "b", "text"}, {"long", "", "more text"}}, std::nullopt),
            "a     b  text\nlong     more text\n");
  EXPECT_EQ(cut_rows({{"a", "b", "text"}, {"long", "", "more text"}}, 14),
            "a     b  text\nlong     mo...\n");
  EXPECT_EQ(cut_rows({}, 10), "");
}

TEST(WrappedRows, HangTheLastColumn) {
  EXPECT_EQ(wrapped_rows({{"a", "one two three four five six seven"}}, 2, 40),
            "  a  one two three four five six seven\n");
  EXPECT_EQ(wrapped_rows({{"a", "one two three four five six seven eight"}}, 2, 40),
            "  a  one two three four five six seven\n     eight\n");
}

TEST(WrappedRows, WithoutATextAreOneLine) {
  EXPECT_EQ(wrapped_rows({{"a", ""}, {"b", "c"}}, 2, 40), "  a\n  b  c\n");
}

TEST(WrappedRows, WithoutRoomStandBelow) {
  EXPECT_EQ(wrapped_rows({{"a-long-name", "one two three four five six"}}, 2, 30),
            "  a-long-name\n      one two three four five\n      six\n");
}

}  // namespace
}  // namespace lockstep
