// `lockstep explain`, the page of every kind of finding, and what the catalogue's page says of
// scenarios.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/page/finding_pages.h"
#include "reports/page/scenario_page.h"
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

TEST(Explain, SaysWhatAScenarioShowsAndWhatMendsIt) {
  const Outcome shown = explained("reentrant-checkpoint-under-ddp", 200);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(
      shown.out,
      AllOf(
          StartsWith("reentrant-checkpoint-under-ddp, a scenario of the catalogue:\n  Re-entrant"),
          HasSubstr(
              "\n  From: unsloth, pull request #4240 (2026-03-12)\n\nFaulty:\n  - reentrant-"),
          HasSubstr("\n\nDoes not mend it:\n  - non-reentrant: the earlier workaround"),
          HasSubstr("\n\nMends it:\n"), HasSubstr("\n  - non-reentrant-offload: the pull"),
          HasSubstr("\n\nWith the catalogue: lockstep show reentrant-checkpoint-under-ddp;")));
}

TEST(Explain, KnowsEveryScenarioOfTheCatalogue) {
  const std::vector<std::string> scenarios = scenarios_of_page();
  EXPECT_GE(scenarios.size(), 72u);
  for (const std::string& id : scenarios) {
    const auto page = scenario_page(id);
    ASSERT_TRUE(page) << id;
    EXPECT_FALSE(page->meaning.empty()) << id;
    EXPECT_FALSE(page->origin.empty()) << id;
    const auto has = [&](std::string_view role) {
      return std::ranges::any_of(page->variants, [&](const auto& one) {
        return one.role == role && !one.name.empty() && !one.description.empty();
      });
    };
    EXPECT_TRUE(has("buggy") || has("wrong-fix")) << id;
    EXPECT_TRUE(has("fixed")) << id;
  }
  EXPECT_FALSE(scenario_page("reentrant"));
  EXPECT_FALSE(scenario_page(""));
}

TEST(Explain, KeepsToTheWidthOfTheTerminal) {
  for (const int columns : {40, 100}) {
    for (const char* arguments : {"", "scaled-by-world-size", "loss-on-unwrapped-module"}) {
      for (const std::string& line : lines_of(explained(arguments, columns).out)) {
        const bool is_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
        if (!is_word) {  // a name is never broken
          EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
        }
      }
    }
  }
}

TEST(Explain, SuggestsTheNearestScenario) {
  const Outcome refused = explained("loss-on-unwraped-module");
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.err, HasSubstr("Did you mean 'loss-on-unwrapped-module'?"));
}

TEST(Explain, SuggestsTheNearestKind) {
  const Outcome refused = explained("gradient-differ");
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.err, HasSubstr("Did you mean 'gradients-differ'?"));
}

}  // namespace
}  // namespace lockstep
