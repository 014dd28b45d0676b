#include "reports/base/exit_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/base/error.h"
#include "tests/command.h"

namespace lockstep {
namespace {

using enum ExitStatus;

TEST(ExitStatuses, OfSeveralTheWorstCounts) {
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
  EXPECT_EQ(exit_status(Error::Kind::unmet), failed);
  EXPECT_EQ(exit_status(Error::Kind::usage), usage);
  EXPECT_EQ(exit_status(Error::Kind::internal), defect);
}

TEST(ExitStatuses, AreThoseOfTheReadme) {
  EXPECT_THAT(text_of(LOCKSTEP_SOURCE_DIR "/README.md"),
              testing::HasSubstr(exit_statuses_as_markdown()));
}

TEST(ExitStatuses, FitATerminal) {
  for (const std::string& line : lines_of(exit_statuses_as_text())) EXPECT_LE(line.size(), 100U);
}

}  // namespace
}  // namespace lockstep
