#include "harness/diff/fix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/diff/job_comparison.h"
#include "harness/verdict/job_comparisons.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// A step in which a gradient of B is twice that of A, or is as like it as `likeness` says.
DiffRecord diff_of(Likeness likeness) {
  TensorDifference tensor;
  tensor.name = "w";
  tensor.likeness = likeness;
  tensor.tolerance = 1e-5;
  if (likeness == Likeness::different) {
    tensor.relative = 0.5;
    tensor.ratio = 2;
    tensor.cosine = 1;
    tensor.is_multiple = true;
    tensor.cause = "2: summed over 2 ranks, never averaged";
    tensor.kind = FindingKind::scaled_by_world_size;
  }
  DiffRecord diff;
  diff.matched = 1;
  diff.sides[1].world_size = 2;
  diff.steps = {{4, 5, 0, "", {tensor}}};
  return diff;
}

TEST(Fix, HasAnOutcomeByBothComparisons) {
  const auto outcome = [](Likeness before, Likeness after) {
    return outcome_of_fix(diff_of(before), diff_of(after));
  };
  EXPECT_EQ(outcome(Likeness::different, Likeness::rounding), FixOutcome::fixed);
  EXPECT_EQ(outcome(Likeness::different, Likeness::different), FixOutcome::still_there);
  EXPECT_EQ(outcome(Likeness::equal, Likeness::different), FixOutcome::new_fault);
  EXPECT_EQ(outcome(Likeness::undecided, Likeness::equal), FixOutcome::not_shown);
  EXPECT_EQ(outcome(Likeness::different, Likeness::undecided), FixOutcome::not_decided);
}

TEST(Fix, IsOneDocument) {
  const auto json =
      nlohmann::json::parse(fix_in_json(diff_of(Likeness::different), diff_of(Likeness::equal)));
  EXPECT_EQ(json["schema"], "lockstep.fix");
  EXPECT_EQ(json["outcome"], "FIXED");
  EXPECT_EQ(json["before"]["verdict"], "violated");
  EXPECT_EQ(json["after"]["verdict"], "holds");
}

/// A job that is in lockstep.
JobRecord job_in_lockstep() {
  JobRecord job;
  job.world_size = 2;
  job.exits.resize(2);
  job.symptom = {SymptomKind::right};
  job.results = {{agree_across_ranks(Kind::gradient, Phase::pre_step), Verdict::holds, "", 4}};
  return job;
}

TEST(JobComparison, WithAReferenceIsPartOfTheVerdict) {
  JobRecord job = job_in_lockstep();
  ASSERT_EQ(status_of(job), ExitStatus::as_expected);
  job.comparisons = {comparison_with_reference(diff_of(Likeness::different), "runs/good")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::failed);
  EXPECT_THAT(job.symptom.text, StartsWith("differs from runs/good from step 5 on: w, 2: summed"));
  const Finding& found = job.results.back().findings.at(0);
  EXPECT_EQ(found.claim, equal_reference(Kind::gradient, Phase::pre_step));
  EXPECT_EQ(found.kind, FindingKind::scaled_by_world_size);
  EXPECT_THAT(found.groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(found.sentence, StartsWith("DIFFERENT"));
}

TEST(JobComparison, ThatHoldsOrIsOpenSaysSo) {
  JobRecord job = job_in_lockstep();
  job.comparisons = {comparison_with_reference(diff_of(Likeness::rounding), "good")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::as_expected);
  job = job_in_lockstep();
  job.comparisons = {comparison_with_reference(diff_of(Likeness::undecided), "good")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::undecided);
  job = job_in_lockstep();
  DiffRecord unmatched = diff_of(Likeness::equal);
  unmatched.matched = 0;
  job.comparisons = {comparison_with_reference(unmatched, "good")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::undecided);
}

TEST(JobComparison, WithARepetitionIsANote) {
  JobRecord job = job_in_lockstep();
  job.comparisons = {comparison_with_repetition(diff_of(Likeness::different), "again")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::as_expected);
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("not reproducible bit for bit")));
  const JobComparison same = comparison_with_repetition(diff_of(Likeness::equal), "again");
  EXPECT_EQ(same.sentence, "reproducible: the second run has the same bits");
  EXPECT_EQ(same.result.verdict, Verdict::holds);
}

/// A job of one rank, which has nothing to agree with.
JobRecord job_of_one_rank() {
  JobRecord job = job_in_lockstep();
  job.world_size = 1;
  job.exits.resize(1);
  job.coverage.parameters = 21;
  job.coverage.ranks = 1;
  job.symptom = {};
  job.results = {{agree_across_ranks(Kind::gradient, Phase::pre_step)},
                 {ranks_finish(), Verdict::holds}};
  return job;
}

TEST(Recording, IsAJobOfOneRankOrOfDeclaredShards) {
  EXPECT_TRUE(is_recording(job_of_one_rank()));
  EXPECT_EQ(status_of(job_of_one_rank()), ExitStatus::as_expected);
  JobRecord sharded = job_of_one_rank();
  sharded.world_size = sharded.coverage.ranks = 2;
  EXPECT_FALSE(is_recording(sharded)) << "names without a partner";
  EXPECT_EQ(status_of(sharded), ExitStatus::not_applicable);
  sharded.coverage.declared = 21;
  EXPECT_TRUE(is_recording(sharded));
  sharded.world_size = 3;
  EXPECT_FALSE(is_recording(sharded)) << "a rank was not seen";
}

TEST(Recording, HasNothingElseWrong) {
  JobRecord job = job_of_one_rank();
  job.results.push_back({stay_finite(Kind::parameter, Phase::post_step), Verdict::undecided});
  EXPECT_FALSE(is_recording(job));
  job = job_of_one_rank();
  job.exits[0].kind = ExitKind::raised;
  EXPECT_FALSE(is_recording(job));
  job = job_of_one_rank();
  job.faults = {"rank-0.csv was changed"};
  EXPECT_FALSE(is_recording(job));
  job = job_of_one_rank();
  job.comparisons = {comparison_with_reference(diff_of(Likeness::different), "good")};
  add_comparisons(job);
  EXPECT_EQ(status_of(job), ExitStatus::failed);
}

}  // namespace
}  // namespace lockstep
