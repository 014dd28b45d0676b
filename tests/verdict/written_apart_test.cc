#include "harness/verdict/written_apart.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

/// What is said of a job whose parameters differ from step 3 on, and that has files of some steps.
/// `changed_by`: the values of rank 1 before step 3 differ by so much.
std::string told(const std::vector<std::int64_t>& steps, std::vector<StepsOfRanks> written,
                 float changed_by = 1) {
  LiteralEvidence files(2);
  for (const std::int64_t step : steps) {
    files.add(0, step, "w", {1}, {Kind::parameter, Phase::pre_forward});
    files.add(1, step, "w", {step == 3 ? 1 + changed_by : 1},
              {Kind::parameter, Phase::pre_forward});
  }
  Finding finding;
  finding.claim = agree_across_ranks(Kind::parameter, Phase::post_step);
  finding.step = 3;
  finding.tensor = "w";
  finding.groups = {{0}, {1}};
  JobRecord job;
  job.world_size = 2;
  ClaimResult& result = job.results.emplace_back();
  result.claim = finding.claim;
  result.findings = {finding};
  job.written_by = std::move(written);
  const auto found = written_apart(files.write(), job);
  return found ? in_words(*found) : "";
}

TEST(WrittenApart, AreParametersThatDifferBeforeAStep) {
  EXPECT_EQ(told({1, 2, 3}, {{{2}, {0}}, {{3, 4}, {1}}}),
            "parameters were written on rank 1 between steps 2 and 3, outside of the optimizer");
  EXPECT_EQ(told({1, 2, 3}, {{{2, 3}, {1}}, {{3}, {0}}}),
            "parameters were written on ranks 0,1 between steps 2 and 3, outside of the optimizer");
}

/// As engines do that swap the memory of parameters.
TEST(WrittenApart, AreNoneThatAllRanksWriteInEachStep) {
  EXPECT_EQ(told({1, 2, 3}, {{{2, 3}, {0, 1}}}), "");
  EXPECT_NE(told({1, 2, 3}, {{{3}, {0, 1}}}), "");
}

TEST(WrittenApart, AreUnknownWhereNothingElseIsExcluded) {
  EXPECT_EQ(told({1, 2, 3}, {{{2, 4}, {1}}}), "") << "between other steps";
  EXPECT_EQ(told({1, 3}, {{{3}, {1}}}), "") << "a step before it was not observed";
  EXPECT_EQ(told({1, 2, 3}, {}), "");
  EXPECT_EQ(told({1, 2, 3}, {{{3}, {1}}}, 0), "") << "the step itself parts them";
}

}  // namespace
}  // namespace lockstep
