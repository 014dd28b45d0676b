#include "harness/verdict/cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kUnknown = "ranks differ from step 3 on: a";

/// Ranks that differ in `tensors` of 4, from step 3 to 10 of 10.
JobRecord differing(std::vector<std::string> tensors, const Claim& claim) {
  JobRecord job;
  job.world_size = 2;
  job.steps = {10, 1, 10, 0};
  Finding finding;
  finding.claim = claim;
  finding.kind = FindingKind::gradients_differ;
  finding.step = 3;
  finding.last_step = 10;
  finding.tensors = std::move(tensors);
  finding.compared = 4;
  ClaimResult& result = job.results.emplace_back();
  result.claim = claim;
  result.verdict = Verdict::violated;
  result.findings = {finding};
  job.symptom.kind = SymptomKind::ranks_differ;
  job.symptom.text = kUnknown;
  return job;
}

JobRecord with_gradients(std::vector<std::string> tensors) {
  return differing(std::move(tensors), agree_across_ranks(Kind::gradient, Phase::pre_step));
}

Unreduced fact(NoReduction reason, std::vector<std::string> parameters, std::int64_t first = 3) {
  return {reason, "DDP", "train.py:67", first, 0, {0, 1}, std::move(parameters)};
}

std::string told(JobRecord job) {
  find_cause(job);
  return job.symptom.text;
}

/// How the gradients of these tensors were reduced.
void add_reduction(JobRecord& job, FindingKind kind, const std::string& sentence,
                   std::vector<std::string> tensors) {
  ClaimResult& result = job.results.emplace_back();
  result.claim = reduce_over_ranks();
  result.verdict = Verdict::violated;
  Finding& finding = result.findings.emplace_back();
  finding.claim = result.claim;
  finding.kind = kind;
  finding.tensors = std::move(tensors);
  finding.sentence = sentence + "; 1 of 4, from step 3 on.";
}

TEST(Cause, IsHowGradientsWereReduced) {
  JobRecord own = with_gradients({"a", "b"});
  add_reduction(own, FindingKind::gradient_never_synchronised, "own", {"a", "b"});
  EXPECT_EQ(told(own),
            "gradients were not synchronised (2 of 4, from step 3): each rank has its own");
  JobRecord changed = with_gradients({"a", "b"});
  add_reduction(changed, FindingKind::changed_after_reduction, "changed on rank 1", {"a"});
  EXPECT_EQ(told(changed), std::string(kUnknown) + ". Cause: changed on rank 1");
  changed.unreduced = {fact(NoReduction::bypassed, {"a", "b"})};
  EXPECT_THAT(told(changed), HasSubstr("DDP's forward was not called")) << "it names the line";
}

TEST(Cause, IsNotHowOtherGradientsWereReduced) {
  JobRecord other = with_gradients({"a", "b"});
  add_reduction(other, FindingKind::ranks_left_out, "halves", {"a", "c"});
  EXPECT_EQ(told(other), kUnknown);
  JobRecord few = with_gradients({"a", "b", "c"});
  add_reduction(few, FindingKind::ranks_left_out, "halves", {"a"});
  EXPECT_EQ(told(few), kUnknown);
  JobRecord parameters = differing({"a"}, agree_across_ranks(Kind::parameter, Phase::post_step));
  add_reduction(parameters, FindingKind::ranks_left_out, "halves", {"a"});
  EXPECT_EQ(told(parameters), kUnknown);
}

TEST(Cause, IsAFactThatPredictsTheTensorsThatDiffer) {
  JobRecord job = with_gradients({"a", "b", "c", "d"});
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b", "c", "d"})};
  find_cause(job);
  EXPECT_TRUE(job.unreduced[0].explains);
  EXPECT_EQ(job.symptom.text,
            "gradients were not synchronised (4 of 4, from step 3). Cause: DDP's forward was not "
            "called from step 3 on; the loss was computed on the module inside it, at train.py:67");
  job.symptom.text = kUnknown;
  job.unreduced[0].parameters.pop_back();
  find_cause(job);
  EXPECT_FALSE(job.unreduced[0].explains) << "another tensor differs, too";
  EXPECT_EQ(job.symptom.text, kUnknown);
}

TEST(Cause, IsNoneWhereMostOfItsTensorsAgree) {
  JobRecord job = with_gradients({"a"});
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b", "c", "d"})};
  EXPECT_EQ(told(job), kUnknown);
  job.unreduced[0].parameters = {"a", "b"};
  EXPECT_THAT(told(job), HasSubstr("Cause")) << "one may agree by chance";
}

TEST(Cause, HoldsInTheStepOfTheDifference) {
  JobRecord job = with_gradients({"a", "b", "c", "d"});
  job.unreduced = {fact(NoReduction::no_sync, {"a", "b", "c", "d"}, 4)};
  EXPECT_EQ(told(job), kUnknown) << "it came after it";
  job.unreduced[0].first_step = 1;
  EXPECT_THAT(told(job), EndsWith("was called in no_sync() alone at train.py:67"));
  job.unreduced[0].last_step = 2;
  EXPECT_EQ(told(job), kUnknown) << "it was over";
}

TEST(Cause, IsTheNarrowestOfSeveral) {
  JobRecord job = with_gradients({"a", "b"});
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b", "c"}),
                   fact(NoReduction::added_after, {"a", "b"})};
  EXPECT_THAT(told(job), EndsWith("after DDP had wrapped it"));
  std::swap(job.unreduced[0], job.unreduced[1]);
  EXPECT_THAT(told(job), EndsWith("after DDP had wrapped it"));
}

/// DDP broadcasts the weights that it knows of.
TEST(Cause, OfInitialWeightsIsWhatTheBroadcastHasNotSeen) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::pre_forward));
  job.results[0].findings[0].kind = FindingKind::initial_weights_differ;
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b"})};
  EXPECT_EQ(told(job), kUnknown);
  job.unreduced = {fact(NoReduction::outside, {"a", "b"})};
  EXPECT_EQ(told(job),
            "initial weights differ (2 of 4). Cause: they are in no module that DDP wraps");
}

TEST(Cause, OfUpdatesIsAnotherHyperparameterOrASkippedStep) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::post_step));
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b"}, 1)};
  EXPECT_EQ(told(job), kUnknown) << "the gradients agree";
  job.configuration = {
      {"SGD.lr", "0.1", {0}}, {"SGD.lr", "0.2", {1}}, {"threads", "1", {0}}, {"threads", "2", {1}}};
  EXPECT_EQ(told(job), kUnknown) << "they were observed before the first step alone";
  job.steps.first = 3;
  EXPECT_THAT(told(job), EndsWith(". Cause: SGD.lr is 0.1 on rank 0 and 0.2 on rank 1"));
  job.skipped_by = {{{3, 5}, {1}}};
  EXPECT_THAT(told(job), EndsWith(". Cause: a gradient scaler skipped the step on rank 1 alone"));
  job.skipped_by.push_back({{3}, {0}});
  EXPECT_THAT(told(job), Not(HasSubstr("skipped"))) << "all ranks did";
}

/// Gradients agree, or were reduced in another way, where parameters differ before a step.
TEST(Cause, IsNoneOfParametersThatDifferBetweenSteps) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::pre_forward));
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b"}, 1)};
  EXPECT_EQ(told(job), kUnknown);
}

TEST(Cause, IsNotLookedForWhereRanksAgree) {
  JobRecord job = with_gradients({"a", "b", "c", "d"});
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b", "c", "d"})};
  job.symptom.kind = SymptomKind::raised;
  EXPECT_EQ(told(job), kUnknown);
}

}  // namespace
}  // namespace lockstep
