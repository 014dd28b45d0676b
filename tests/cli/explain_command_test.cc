// `lockstep explain`, and the page of every kind of finding.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "reports/page/finding_pages.h"
#include "tests/cli/fake_catalogue.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Outcome explained(const std::string& arguments, int columns = 80) {
  return run_shell(fmt::format("COLUMNS={} LOCKSTEP_CATALOGUE=/nowhere {} explain {}", columns,
                               kLockstep, arguments));
}

TEST(Explain, HasAPageForEveryKindAndNoOther) {
  std::set<std::string> pages;
  for (const auto& entry :
       std::filesystem::directory_iterator(LOCKSTEP_SOURCE_DIR "/docs/findings")) {
    pages.insert(entry.path().stem().string());
  }
  const auto& kinds = Names<FindingKind>::values;
  EXPECT_EQ(pages, std::set<std::string>(kinds.begin(), kinds.end()));
}

TEST(Explain, SaysMeaningCausesAndHelpOfEveryKind) {
  for (const std::string_view kind : Names<FindingKind>::values) {
    const std::string page(page_of(*parse<FindingKind>(kind)));
    EXPECT_THAT(
        page, AllOf(StartsWith(fmt::format("# {}\n\n", kind)),
                    HasSubstr("\n\n## Usual causes\n\n- "), HasSubstr("\n\n## What helps\n\n- ")));
    const Outcome shown = explained(std::string(kind));
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_THAT(shown.out,
                AllOf(StartsWith(fmt::format("{}:\n  ", kind)),
                      HasSubstr("\n\nUsual causes:\n  - "), HasSubstr("\n\nWhat helps:\n  - ")));
  }
}

TEST(Explain, ListsAllKindsWithoutAnArgument) {
  const Outcome listed = explained("");
  EXPECT_EQ(listed.status, 0);
  for (const std::string_view kind : Names<FindingKind>::values) {
    EXPECT_THAT(listed.out, HasSubstr(fmt::format("\n  {}: ", kind)));
  }
}

TEST(Explain, KeepsToTheWidthOfTheTerminal) {
  for (const int columns : {40, 100}) {
    for (const char* arguments : {"", "scaled-by-world-size"}) {
      for (const std::string& line : lines_of(explained(arguments, columns).out)) {
        const bool is_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
        if (!is_word) {  // a name is never broken
          EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
        }
      }
    }
  }
}

TEST(Explain, SuggestsTheNearestKind) {
  const Outcome refused = explained("gradient-differ");
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.err, HasSubstr("Did you mean 'gradients-differ'?"));
}

}  // namespace
}  // namespace lockstep
