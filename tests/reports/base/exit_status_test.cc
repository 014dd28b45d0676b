#include "reports/base/exit_status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"
#include "tests/command.h"

namespace lockstep {
namespace {

TEST(ExitStatuses, OfSeveralTheWorstCounts) {
  using enum ExitStatus;
  EXPECT_EQ(worse(as_expected, not_applicable), not_applicable);
  EXPECT_EQ(worse(not_applicable, undecided), undecided);
  EXPECT_EQ(worse(undecided, failed), failed);
  EXPECT_EQ(worse(failed, usage), usage);
  EXPECT_EQ(worse(usage, defect), defect);
  EXPECT_EQ(worse(defect, interrupted), interrupted);
  EXPECT_EQ(worse(interrupted, terminated), terminated);
}

TEST(ExitStatuses, TheOrderOfTwoChangesNothing) {
  for (const ExitStatus a : kFromWorst) {
    for (const ExitStatus b : kFromWorst) EXPECT_EQ(worse(a, b), worse(b, a));
  }
}

TEST(ExitStatuses, EachHasOneMeaningAndOnePlace) {
  for (const ExitMeaning& entry : kExitMeanings) {
    EXPECT_EQ(std::count(kFromWorst.begin(), kFromWorst.end(), entry.status), 1);
    EXPECT_FALSE(entry.meaning.empty());
  }
}

TEST(ExitStatuses, ThoseOfErrorsAreAmongThem) {
  using enum ExitStatus;
  EXPECT_EQ(exit_status(Error::Kind::unmet), failed);
  EXPECT_EQ(exit_status(Error::Kind::usage), usage);
  EXPECT_EQ(exit_status(Error::Kind::internal), defect);
}

TEST(ExitStatuses, AreThoseOfTheReadme) {
  std::string table = "| exit status | meaning |\n|---|---|\n";
  for (const auto& [status, meaning] : kExitMeanings) {
    table += fmt::format("| {} | {} |\n", static_cast<int>(status), meaning);
  }
  std::replace(table.begin(), table.end(), '\'', '`');
  std::string order;
  for (const ExitStatus status : kFromWorst) {
    order += fmt::format("{}{}", order.empty() ? "" : ", ", static_cast<int>(status));
  }
  EXPECT_THAT(text_of(LOCKSTEP_SOURCE_DIR "/docs/commands.md"),
              testing::HasSubstr(fmt::format(
                  "{}\nIf several apply, the status is the first of {}.\n", table, order)));
}

TEST(ExitStatuses, OfACommandAreOrderedWithoutOthers) {
  EXPECT_THAT(exit_statuses_of("report", 100),
              testing::HasSubstr("is the first of 70, 64, 1, 2, 3, 0."));
  EXPECT_THAT(exit_statuses_of("run", 100),
              testing::HasSubstr("is the first of 143, 130, 70, 64, 1, 2, 3, 0."));
}

TEST(ExitStatuses, FitATerminal) {
  for (const std::size_t width : {40U, 100U}) {
    for (const std::string& line :
         lines_of(exit_statuses_as_text(width) + exit_statuses_of("run", width))) {
      EXPECT_LE(line.size(), width);
    }
  }
}

TEST(ExitStatuses, OfACommandAreItsOwn) {
  EXPECT_EQ(exit_statuses_of("doctor", 80),
            "Exit status:\n"
            "    0  'run' can work here, or no catalogue is installed\n"
            "    1  'run' cannot work here\n"
            "   64  wrong arguments\n"
            "   70  a defect of Lockstep\n");
  EXPECT_THAT(exit_statuses_of("run", 80),
              testing::HasSubstr("If several apply, the status is the first of"));
  EXPECT_THAT(exit_statuses_of("report", 80), testing::Not(testing::HasSubstr("require")));
}

TEST(ExitStatuses, OfEveryCommandBeginWithSuccessAndHaveUsageAndDefect) {
  using enum ExitStatus;
  std::map<std::string_view, std::vector<ExitStatus>> commands;
  for (const CommandExit& entry : kCommandExits) commands[entry.command].push_back(entry.status);
  EXPECT_EQ(commands.size(), 12U);
  for (const auto& [command, statuses] : commands) {
    EXPECT_EQ(statuses.front(), as_expected) << command;
    EXPECT_THAT(statuses, testing::IsSupersetOf({usage, defect})) << command;
    EXPECT_TRUE(std::is_sorted(statuses.begin(), statuses.end())) << command;
    EXPECT_EQ(std::set(statuses.begin(), statuses.end()).size(), statuses.size()) << command;
  }
}

}  // namespace
}  // namespace lockstep
