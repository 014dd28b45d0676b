#include "harness/verdict/cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/verdict/symptom.h"
#include "harness/verdict/untrained_parameters.h"

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

TEST(Cause, IsThatRanksAreAStepBehindFromTheFirstDifferenceOn) {
  JobRecord job = with_gradients({"a", "b"});
  add_reduction(job, FindingKind::changed_after_reduction, "changed on rank 1", {"a"});
  JobRecord later = job;
  find_cause(job, {.behind = StepBehind{{1}, {0}, 3, 1}});
  EXPECT_EQ(job.symptom.text, std::string(kUnknown) +
                                  ". Cause: rank 1 is an optimizer step behind: its gradients of "
                                  "step 3 are those of step 4 on rank 0");
  find_cause(later, {.behind = StepBehind{{1}, {0}, 4, 1}});
  EXPECT_EQ(later.symptom.text, std::string(kUnknown) + ". Cause: changed on rank 1");
}

TEST(Cause, IsWhatRanksWroteBetweenSteps) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::post_step));
  JobRecord later = job;
  find_cause(job, {.written = WrittenApart{{1}, 3}});
  EXPECT_EQ(job.symptom.text, std::string(kUnknown) +
                                  ". Cause: parameters were written on rank 1 between steps 2 "
                                  "and 3, outside of the optimizer");
  find_cause(later, {.written = WrittenApart{{1}, 4}});
  EXPECT_EQ(later.symptom.text, kUnknown);
}

TEST(Cause, IsTheOrderOfParametersBeforeAllOthers) {
  JobRecord job = with_gradients({"a", "b"});
  job.parameter_orders = {{"DDP", 2, "names", "ab", {0}}, {"DDP", 2, "names", "ba", {1}}};
  find_cause(job, {.behind = StepBehind{{1}, {0}, 3, 1}});
  EXPECT_EQ(job.symptom.text, std::string(kUnknown) +
                                  ". Cause: ranks 0 and 1 have the 2 parameters of the model in "
                                  "different orders, and DDP pairs them by their places");
}

/// Tensor parallelism: ranks 0 and 1, and 2 and 3, hold the parts of copies of a model.
FactsOfRanks facts_of_parts() {
  return {.parts = {{0, {"tp 0"}}, {1, {"tp 1"}}, {2, {"tp 0"}}, {3, {"tp 1"}}}};
}

std::string told_of_parts(const std::vector<std::vector<int>>& groups, const FactsOfRanks& facts) {
  JobRecord job = with_gradients({"a", "b"});
  job.steps.first = 3;
  job.results[0].findings[0].groups = groups;
  add_reduction(job, FindingKind::ranks_left_out, "halves", {"a", "b"});
  find_cause(job, facts);
  return job.symptom.text;
}

/// They were reduced before.
TEST(Cause, OfRanksThatDivideTheModelMayBeAChangeOfTheirGradients) {
  for (const FindingKind kind :
       {FindingKind::changed_after_reduction, FindingKind::parts_clipped_apart}) {
    JobRecord job = with_gradients({"a", "b"});
    job.results[0].findings[0].groups = {{0, 2}, {1, 3}};
    job.results[0].findings[0].compared = 2;
    add_reduction(job, kind, "changed on rank 1", {"a", "b"});
    find_cause(job, facts_of_parts());
    EXPECT_THAT(job.symptom.text, testing::EndsWith(": changed on rank 1")) << name(kind);
  }
}

/// A rank that clips scales all that it holds.
TEST(Cause, OfSomeGradientsIsNoClippingOfParts) {
  JobRecord job = with_gradients({"a", "b"});
  job.results[0].findings[0].groups = {{0, 2}, {1, 3}};
  job.results[0].findings[0].compared = 4;
  add_reduction(job, FindingKind::parts_clipped_apart, "clipped", {"w"});
  find_cause(job, facts_of_parts());
  EXPECT_THAT(job.symptom.text, testing::Not(testing::HasSubstr("clipped")));
}

TEST(Cause, OfRanksThatDivideTheModelIsNoReduction) {
  FactsOfRanks facts = facts_of_parts();
  const std::string apart =
      "gradients differ between ranks that divide the model (2 of 4, from step 3): ";
  EXPECT_EQ(told_of_parts({{0, 2}, {1, 3}}, facts),
            apart + "they need the same samples, or a sum over these ranks");
  facts.samples.groups = {{0}, {1}, {2, 3}};
  EXPECT_EQ(told_of_parts({{0, 2}, {1, 3}}, facts),
            apart + "ranks 0,1 saw other samples, and nothing sums what they computed");
  facts.samples.groups = {{0, 1}, {2, 3}};
  EXPECT_EQ(told_of_parts({{0, 2}, {1, 3}}, facts),
            apart + "ranks 0,1 saw the same samples, and nothing sums what they computed");
  facts.unshared = {"head.bias", "head.weight"};
  EXPECT_EQ(
      told_of_parts({{0, 2}, {1, 3}}, facts),
      apart + "head.bias and 1 more differ before it: initial weights, or parts of the model");
}

TEST(Cause, OfRanksThatHoldTheSamePartsIsTheReduction) {
  const std::string halves = std::string(kUnknown) + ". Cause: halves";
  const FactsOfRanks facts = facts_of_parts();
  EXPECT_EQ(told_of_parts({{0, 1}, {2, 3}}, facts), halves) << "copies that are apart";
  EXPECT_EQ(told_of_parts({{0}, {1}, {2}, {3}}, facts), halves) << "copies, too";
  EXPECT_EQ(told_of_parts({{0, 2}, {1, 3}}, {}), halves) << "all are copies";
  FactsOfRanks unknown = facts;
  unknown.parts.erase(3);
  EXPECT_EQ(told_of_parts({{0, 2}, {1, 3}}, unknown), halves);
}

TEST(Cause, IsFollowedByParametersThatDifferBeforeIt) {
  JobRecord job = with_gradients({"a"});
  find_cause(job, {.unshared = {"b"}});
  EXPECT_EQ(job.symptom.text, kUnknown) << "ranks agree in steps 1 and 2";
  job.steps.first = 3;
  find_cause(job, {.unshared = {"b"}});
  EXPECT_EQ(job.symptom.text, std::string(kUnknown) +
                                  "; b differs before it: initial weights, or parts of the model");
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
  EXPECT_EQ(told(changed), std::string(kUnknown) + ". Cause: changed on rank 1")
      << "the training reduces by itself";
  own.unreduced = changed.unreduced;
  EXPECT_THAT(told(own), HasSubstr("DDP's forward was not called")) << "it names the line";
}

/// Whose ranks may train apart on purpose. A wrapper that is there is not.
TEST(Cause, IsNoneWhereParametersAgreeAgain) {
  JobRecord job = with_gradients({"a", "b"});
  job.results[0].findings[0].kind = FindingKind::gradients_differ;
  job.unreduced = {fact(NoReduction::unwrapped, {"a", "b"})};
  add_reduction(job, FindingKind::gradient_never_synchronised, "own", {"a", "b"});
  find_cause(job, {.agrees_every = 4});
  EXPECT_EQ(job.symptom.text,
            "gradients were not synchronised (2 of 4, from step 3); the parameters agree again "
            "every 4 steps: --agree-every 4, if that is meant");
  EXPECT_FALSE(job.unreduced[0].explains);
  job.unreduced[0].reason = NoReduction::bypassed;
  find_cause(job, {.agrees_every = 4});
  EXPECT_THAT(job.symptom.text, HasSubstr("Cause: DDP's forward was not called"));
}

/// The training may reduce by itself: what ranks contributed has to show that it does not.
TEST(Cause, IsAMissingWrapperIfNothingWasReduced) {
  JobRecord job = with_gradients({"a", "b", "c", "d"});
  job.unreduced = {fact(NoReduction::unwrapped, {"a", "b", "c", "d"})};
  EXPECT_EQ(told(job), kUnknown);
  add_reduction(job, FindingKind::gradient_never_synchronised, "own", {"a", "b", "c", "d"});
  EXPECT_THAT(told(job), EndsWith("Cause: neither DDP nor FSDP wraps the module"));
  job.results[0].findings[0].tensors = {"a", "b", "c"};
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "the fourth is reduced";
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
  EXPECT_THAT(told(job), EndsWith("after DDP had wrapped it, at train.py:67"));
  std::swap(job.unreduced[0], job.unreduced[1]);
  EXPECT_THAT(told(job), EndsWith("after DDP had wrapped it, at train.py:67"));
}

/// DDP broadcasts the weights that it knows of.
TEST(Cause, OfInitialWeightsIsWhatTheBroadcastHasNotSeen) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::pre_forward));
  job.results[0].findings[0].kind = FindingKind::initial_weights_differ;
  job.unreduced = {fact(NoReduction::bypassed, {"a", "b"})};
  EXPECT_EQ(told(job), kUnknown);
  job.unreduced = {fact(NoReduction::outside, {"a", "b"})};
  EXPECT_EQ(told(job),
            "initial weights differ (2 of 4). Cause: they are in no module that DDP wraps, at "
            "train.py:67");
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

TEST(Cause, OfUpdatesHasTheLineOfTheOptimizerAndTheStepsOfItsScheduler) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::post_step));
  job.settings_apart = {{"SGD 1 group 0.lr", 3, {{"", "0.1", {0}}, {"", "0.2", {1}}}}};
  job.optimizers = {{"SGD", "train.py:4", {0, 1}}, {"SGD 1", "train.py:40", {0, 1}}};
  const std::string cause = ". Cause: SGD 1 group 0.lr is 0.1 on rank 0 and 0.2 on rank 1";
  EXPECT_THAT(told(job), EndsWith(cause + ", of the optimizer made at train.py:40"));
  job.schedules = {{"StepLR", "SGD", 1, 6, {0}}, {"StepLR", "SGD", 2, 6, {1}}};
  EXPECT_THAT(told(job), EndsWith("made at train.py:40")) << "they are of the other optimizer";
  for (ScheduleSteps& one : job.schedules) one.optimizer = "SGD 1";
  EXPECT_THAT(told(job), EndsWith("; StepLR took 1 steps on rank 0 and 2 on rank 1 up to step 6"));
  job.optimizers = {{"SGD 1", "a.py:4", {0}}, {"SGD 1", "b.py:5", {1}}};
  EXPECT_THAT(told(job), HasSubstr("made at a.py:4 on rank 0 and b.py:5 on rank 1; StepLR"));
}

TEST(Cause, OfUpdatesIsAStepThatARankDidNotTrain) {
  JobRecord job = differing({"a", "b"}, agree_across_ranks(Kind::parameter, Phase::post_step));
  job.joined = {{{1}, 1, 2}};
  EXPECT_THAT(told(job), EndsWith(". Cause: rank 1 had joined in step 2 (torch's Join), of which "
                                  "its optimizer keeps nothing, such as momentum"));
  job.joined = {{{1}, 0, 1}};
  EXPECT_EQ(told(job), kUnknown) << "step 2 was trained by all";
}

/// Two ranks whose model an optimizer of other parameters was made for.
JobRecord untrained(std::int64_t last_step, std::vector<int> ranks = {0, 1}) {
  JobRecord job;
  job.world_size = 2;
  job.untrained = {{"SGD", "train.py:12", true, 0, 1, last_step, std::move(ranks), {"a", "b"}}};
  return job;
}

TEST(UntrainedParameters, IsCertainOnceNoRankHasChangedItInSeveralSteps) {
  const auto found = untrained_parameters(untrained(4));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->violated.verdict, Verdict::violated);
  EXPECT_EQ(found->violated.findings[0].kind, FindingKind::wrong_update);
  EXPECT_EQ(found->violated.findings[0].step, 1);
  EXPECT_EQ(found->violated.findings[0].last_step, 3);
  EXPECT_EQ(found->symptom.text,
            "weights did not change (2 of 2, from step 1). Cause: SGD holds parameters that the "
            "model does not: it was made before fully_shard, at train.py:12");
  EXPECT_EQ(untrained_in_words(untrained(4)), "");
  for (const JobRecord& job : {untrained(2), untrained(4, {0})}) {
    EXPECT_FALSE(untrained_parameters(job));
    EXPECT_THAT(untrained_in_words(job), HasSubstr("SGD holds parameters that the model does not"));
  }
  EXPECT_FALSE(untrained_parameters(JobRecord()));
}

TEST(UntrainedParameters, MayBeAPartOfTheModel) {
  JobRecord job = untrained(4);
  job.untrained[0].is_sharded = false;
  job.untrained[0].held = 4;
  EXPECT_EQ(untrained_parameters(job)->symptom.text,
            "weights did not change (2 of 6, from step 1). Cause: SGD holds parameters that the "
            "model does not: it was made before a part of the model was replaced, at train.py:12");
}

TEST(UntrainedParameters, AreToldWhereNoOptimizerWasGivenThem) {
  JobRecord job = untrained(64);
  job.untrained[0].optimizer.clear();
  job.untrained[0].held = 1;
  EXPECT_FALSE(untrained_parameters(job)) << "the training may want that";
  EXPECT_EQ(untrained_in_words(job),
            "no optimizer holds a and 1 more of the 3 parameters of the model, though they have "
            "gradients");
  job.untrained[0].parameters = {"a"};
  EXPECT_EQ(untrained_in_words(job),
            "no optimizer holds a of the 2 parameters of the model, though it has gradients");
  job.untrained[0].parameters.clear();
  EXPECT_EQ(untrained_in_words(job), "");
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

/// Of ranks that reduce their gradients one by one, at a line.
LastCalls calls(int rank, std::int64_t count, std::vector<std::string> without,
                bool is_of_gradients = true) {
  return {{rank}, 8, std::move(without), {{"allreduce", "train.py:9", count, is_of_gradients}}};
}

TEST(Cause, IsACallThatIsSkippedWithoutAGradient) {
  JobRecord job = with_gradients({"b", "c", "d"});
  job.last_calls = {calls(0, 4, {}), calls(1, 3, {"b"})};
  EXPECT_THAT(told(job), EndsWith("Cause: rank 0 called 4 all-reduces at train.py:9, one for each "
                                  "gradient that it has, rank 1 only 3: it has none of b"));
  job.joined = {{{1}, 4, 6}};
  EXPECT_EQ(told(job), kUnknown) << "the last steps of ranks are different ones";
  job.joined.clear();
  job.last_calls = {calls(0, 3, {"c"}), calls(1, 3, {"b"})};
  EXPECT_THAT(told(job), EndsWith("Cause: each rank called 3 all-reduces at train.py:9, one for "
                                  "each gradient that it has, but rank 0 has none of c, rank 1 has "
                                  "none of b"));
  job.symptom.kind = SymptomKind::raised_late;
  EXPECT_THAT(told(job), HasSubstr("Cause: each rank called 3"));
}

/// The gradients may be reduced in another way, or not be those that differ.
TEST(Cause, IsNoSkippedCallThatIsNotKnown) {
  JobRecord job = with_gradients({"c"});
  job.last_calls = {calls(0, 4, {}), calls(1, 3, {"b"})};
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "others differ";
  job = with_gradients({"b"});
  job.last_calls = {calls(0, 2, {}, false), calls(1, 2, {"b"}, false)};
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "no call for each gradient";
  job.last_calls = {calls(0, 4, {}), calls(1, 3, {"b"})};
  job.world_size = 3;
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "a rank is unknown";
}

TEST(Cause, IsACallThatOneRankMakesAlone) {
  JobRecord job = with_gradients({"a", "b", "c", "d"});
  job.last_calls = {calls(0, 4, {}), calls(1, 4, {})};
  job.last_calls[0].calls.push_back({"allreduce", "train.py:7", 1, false});
  EXPECT_THAT(told(job), EndsWith("Cause: rank 0 called 1 all-reduce at train.py:7 in step 8, rank "
                                  "1 none"));
  job.last_calls[0].calls.back().operation = "allgather";
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "such as a checkpoint that a thread writes";
  job.last_calls[0].calls.back().operation = "allreduce";
  job.last_calls[1].step = 9;
  EXPECT_THAT(told(job), Not(HasSubstr("Cause"))) << "another step may have other calls";
}

}  // namespace
}  // namespace lockstep
