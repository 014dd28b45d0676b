#include "reports/base/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <map>
#include <string>

#include "reports/base/plain_text.h"

namespace lockstep {
namespace {

TEST(WidthOfLines, IsThatOfColumnsElseOfTheTerminalElseAHundred) {
  EXPECT_EQ(width_of_lines("72", 120), 72U);
  EXPECT_EQ(width_of_lines(nullptr, 120), 120U);
  EXPECT_EQ(width_of_lines(nullptr, 0), kConsoleWidth);
}

TEST(WidthOfLines, IsNotTakenFromWhatIsNoWidth) {
  for (const char* columns : {"banana", "", "0", "-5", "80x", " 80", "99999999999999999999999"}) {
    EXPECT_EQ(width_of_lines(columns, 120), 120U) << columns;
  }
}

TEST(WidthOfLines, IsNeverTooSmallNorTooLarge) {
  EXPECT_EQ(width_of_lines("1", 0), kLeastWidth);
  EXPECT_EQ(width_of_lines(nullptr, 3), kLeastWidth);
  EXPECT_EQ(width_of_lines("1000000000", 0), kMostWidth);
}

/// One of 72 columns.
class PseudoTerminal : public testing::Test {
 protected:
  void SetUp() override {
    const winsize size{24, 72, 0, 0};
    ASSERT_EQ(::openpty(&ours_, &theirs_, nullptr, nullptr, &size), 0);
  }
  ~PseudoTerminal() override {
    ::close(ours_);
    ::close(theirs_);
  }

  Terminal with(const std::map<std::string, std::string>& variables) const {
    return terminal_of(theirs_, [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  }

 private:
  int ours_ = -1;
  int theirs_ = -1;
};

TEST_F(PseudoTerminal, HasItsWidthAndColours) {
  const Terminal terminal = with({{"TERM", "xterm"}, {"LANG", "en_GB.UTF-8"}});
  EXPECT_TRUE(terminal.is_terminal);
  EXPECT_TRUE(terminal.has_colour);
  EXPECT_TRUE(terminal.has_utf8);
  EXPECT_EQ(terminal.width, 72U);
  EXPECT_EQ(with({{"COLUMNS", "50"}}).width, 50U);
}

TEST_F(PseudoTerminal, HasNoColourWhereThatIsNotWanted) {
  EXPECT_FALSE(with({{"TERM", "xterm"}, {"NO_COLOR", "1"}}).has_colour);
  EXPECT_TRUE(with({{"TERM", "xterm"}, {"NO_COLOR", ""}}).has_colour) << "empty is not set";
  EXPECT_TRUE(with({{"TERM", "xterm"}, {"NO_COLOR", "1"}}).obeys_escapes);
}

TEST_F(PseudoTerminal, ThatIsDumbIsSentNothingButText) {
  for (const char* term : {"dumb", ""}) {
    const Terminal terminal = with({{"TERM", term}, {"LANG", "C.UTF-8"}});
    EXPECT_TRUE(terminal.is_terminal);
    EXPECT_FALSE(terminal.obeys_escapes || terminal.has_colour || terminal.has_utf8) << term;
  }
}

TEST_F(PseudoTerminal, ShowsBlocksWhereTheFirstVariableOfTheLocaleSaysSo) {
  EXPECT_FALSE(with({{"TERM", "xterm"}}).has_utf8);
  EXPECT_TRUE(with({{"TERM", "xterm"}, {"LC_ALL", ""}, {"LANG", "de_DE.utf8"}}).has_utf8);
  EXPECT_FALSE(with({{"TERM", "xterm"}, {"LC_ALL", "C"}, {"LANG", "de_DE.utf8"}}).has_utf8);
}

TEST(Pipe, IsNoTerminal) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Terminal pipe = terminal_of(ends[1], [](const char*) { return "xterm.UTF-8"; });
  EXPECT_FALSE(pipe.is_terminal || pipe.has_colour || pipe.has_utf8);
  EXPECT_EQ(pipe.width, kConsoleWidth);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace lockstep
