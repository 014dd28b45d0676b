#include "reports/base/plain_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

TEST(PlainText, KeepsWhatCanBeShown) {
  const std::string text = "a~ \xc3\xa4 \xe2\x82\xac \xf0\x9f\x92\xa5\n";
  EXPECT_EQ(printable(text), text);
}

TEST(PlainText, WritesControlCharactersOut) {
  EXPECT_EQ(printable(std::string("\0\x1b[m\x7f\r\n\t|\xc2\x9b", 11)),
            "\\x00\\x1b[m\\x7f\\x0d\n    |\\x9b");
}

TEST(PlainText, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff"), std::string("a") + kReplacement);
  EXPECT_EQ(printable("\xc3("), kReplacement + std::string("("));
  EXPECT_EQ(printable("\xe2\x82"), std::string(kReplacement) + kReplacement);
  for (const char* wrong : {"\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf8\x88\x80\x80"}) {
    EXPECT_TRUE(printable(wrong).starts_with(kReplacement)) << wrong;
  }
}

TEST(PlainText, OfAnErrorHasItsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable_error("no \x9b\x1b[31m\n  \xc3\xa4"), "no \\x9b\\x1b[31m\n  \xc3\xa4");
  const std::string once = printable_error("\x9b");
  EXPECT_EQ(printable_error(once), once);
}

TEST(PlainText, WritesOutWhatTurnsTheDirectionOfWritingOrEndsALine) {
  EXPECT_EQ(printable("a\xe2\x80\xae|\xe2\x81\xa6|\xe2\x80\x8f|\xd8\x9c|\xe2\x80\xa8"),
            "a\\u202e|\\u2066|\\u200f|\\u061c|\\u2028");
}

TEST(PlainText, IsNoCommandOfACiService) {
  EXPECT_EQ(printable("::error::x\n ::y"), "\\x3a:error::x\n \\x3a:y");
  EXPECT_EQ(printable("std::bad_alloc"), "std::bad_alloc");
  EXPECT_EQ(printable("a##[b ##vso[c ## d"), "a\\x23#[b \\x23#vso[c ## d");
}

TEST(PlainText, OfANameIsOneLine) { EXPECT_EQ(plain("a\n::b"), "a\\x0a\\x3a:b"); }

TEST(PlainText, BreaksLinesBetweenWords) {
  const std::string word(40, 'a');
  EXPECT_EQ(wrapped(word + " " + word + " " + word, 2, 4),
            "  " + word + " " + word + "\n      " + word + "\n");
  EXPECT_EQ(wrapped(std::string(200, 'a'), 0), std::string(200, 'a') + "\n");
  EXPECT_EQ(wrapped(" \n ", 2), "");
}

TEST(PlainText, PutsAPrefixBeforeEveryLine) {
  EXPECT_EQ(prefixed("a\n\nb", "| "), "| a\n| \n| b\n");
  EXPECT_EQ(prefixed("", "| "), "");
}

TEST(PlainText, CutsBetweenCharacters) {
  const std::string text =
      "a\xe2\x82\xac"
      "b";
  EXPECT_EQ(beginning(text, 5), text);
  EXPECT_EQ(beginning(text, 4), "a\xe2\x82\xac [...]");
  EXPECT_EQ(beginning(text, 3), "a [...]");
  EXPECT_EQ(ending(text, 5), text);
  EXPECT_EQ(ending(text, 4),
            "[...] \xe2\x82\xac"
            "b");
  EXPECT_EQ(ending(text, 3), "[...] b");
}

}  // namespace
}  // namespace lockstep
