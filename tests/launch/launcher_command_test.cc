#include "harness/launch/launcher_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/base/error.h"
#include "reports/base/shell_word.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SplitWords, SplitsAtBlanksAndHonoursQuotes) {
  EXPECT_THAT(split_words(""), ElementsAre());
  EXPECT_THAT(split_words("  mpirun\t-n  2 "), ElementsAre("mpirun", "-n", "2"));
  EXPECT_THAT(split_words(R"(sh -c 'a "b" \c' "d 'e' \" f" g\ h '' x'y'z)"),
              ElementsAre("sh", "-c", R"(a "b" \c)", R"(d 'e' " f)", "g h", "", "xyz"));
  EXPECT_THAT(split_words(R"(ends\)"), ElementsAre(R"(ends\)"));
}

TEST(SplitWords, ReadsBackWhatWasQuoted) {
  for (const std::string word :
       {"plain", "", "two words", "it's", "\"{ranks}\"", "$HOME", "a\\b"}) {
    EXPECT_THAT(split_words(shell_word(word)), ElementsAre(word));
  }
  EXPECT_EQ(shell_word("--set=a/b"), "--set=a/b");
}

std::string refusal_of(const std::string& text) {
  try {
    const LauncherCommand command(text);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
}

TEST(LauncherCommand, PutsTheNumberOfRanksInPlace) {
  const LauncherCommand command("sh -n {ranks} --map=ppr:{ranks}:node '{ranks} {ranks}'");
  const auto words = command.words_for(3);
  EXPECT_THAT(words.front(), testing::EndsWith("/sh"));
  EXPECT_THAT(std::vector<std::string>(words.begin() + 1, words.end()),
              ElementsAre("-n", "3", "--map=ppr:3:node", "3 3"));
  EXPECT_EQ(command.words_for(12).at(2), "12");
}

TEST(LauncherCommand, ThatCannotWorkIsRefused) {
  EXPECT_THAT(refusal_of(""), HasSubstr("{ranks}"));
  EXPECT_THAT(refusal_of("mpirun -n 2"), HasSubstr("{ranks}"));
  EXPECT_THAT(refusal_of("sh '{ranks}"), HasSubstr("closed"));
  EXPECT_THAT(refusal_of("no-such-launcher -n {ranks}"), HasSubstr("'no-such-launcher'"));
  EXPECT_THAT(refusal_of("/etc/passwd {ranks}"), HasSubstr("'/etc/passwd'"));
}

}  // namespace
}  // namespace lockstep
