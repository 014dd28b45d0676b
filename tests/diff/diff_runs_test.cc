#include "harness/diff/diff_runs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/process_identity.h"
#include "reports/comparison/tensor_words.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

/// A job of two steps.
class SmallJob {
 public:
  explicit SmallJob(int ranks = 1) : files_(ranks), run_(literal_run_of_job(files_, ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t step : {1, 2}) {
        const auto value = static_cast<float>(step);
        files_.add(rank, step, "w", {value, 2});
        files_.add(rank, step, "w", {value, 3}, {Kind::parameter, Phase::post_step, 0});
      }
    }
  }

  JobRecord& record() { return run_.jobs[0]; }

  void observe_module() {
    files_.add(0, 1, "layer", {1}, {Kind::module_output, Phase::pre_forward, 0});
  }
  void observe_before(int rank, const std::string& parameter, float value) {
    files_.add(rank, 1, parameter, {value, 3}, {Kind::parameter, Phase::pre_forward, 0});
  }
  void observe_random_state(int rank, std::int64_t step, float state) {
    files_.add(rank, step, "torch cpu", {state}, {Kind::random_state, Phase::post_step, 0});
  }

  void observe_state(Kind kind, const std::string& name, float value) {
    files_.add(0, 1, name, {value, 2 * value}, {kind, Phase::post_step, 0});
  }

  /// In step 1, of a parameter "v": `gradient` and `update` times the same numbers.
  void observe_update(float gradient, float update, int rank = 0) {
    std::vector<float> before(32, 1), gradients, after;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const float number = (i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(i + 1) / 64;
      gradients.push_back(gradient * number);
      after.push_back(1 - update * number);
    }
    files_.add(rank, 1, "v", before, {Kind::parameter, Phase::pre_forward, 0});
    files_.add(rank, 1, "v", gradients);
    files_.add(rank, 1, "v", after, {Kind::parameter, Phase::post_step, 0});
  }

  /// In step 2, of the same parameter.
  void observe_gradient(float gradient, int rank = 0) {
    std::vector<float> gradients;
    for (int i = 1; i <= 32; ++i) gradients.push_back(gradient * static_cast<float>(i) / 64);
    files_.add(rank, 2, "v", gradients);
  }

  /// Call once.
  SideFiles side() {
    files_.write_as([&](int rank) { return process_identity(record(), rank); });
    return {record(), files_.folder().parent_path(), files_.folder().string()};
  }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

/// What a comparison says of a prerequisite; empty: nothing.
std::string text_of(Prerequisite prerequisite, SmallJob& a, SmallJob& b) {
  for (const Precondition& one : diff_runs(a.side(), b.side(), {}, {}).preconditions) {
    if (one.prerequisite == prerequisite) return one.text;
  }
  return "";
}

std::string random_states_of(SmallJob& a, SmallJob& b) {
  return text_of(Prerequisite::random_states, a, b);
}

TEST(DiffOfJobs, TellsOfWeightsThatRanksDoNotShareAtTheStart) {
  SmallJob a(2), b(2);
  for (const int rank : {0, 1}) {
    for (SmallJob* const job : {&a, &b}) job->observe_before(rank, "w", 0);
    a.observe_before(rank, "head", 0);
    b.observe_before(rank, "head", static_cast<float>(rank));
  }
  EXPECT_EQ(text_of(Prerequisite::initial_weights, a, b),
            "equal, bit for bit: 1 tensor; 1 not compared, such as head: ranks 0 and 1 hold "
            "different values of it in B");
}

TEST(DiffOfJobs, TellsInWhichPrecisionEachComputed) {
  SmallJob a, b;
  b.record().precisions = {{"autocast cpu", "bfloat16", 1, {0}}};
  EXPECT_THAT(diff_runs(a.side(), b.side(), {}, {}).precisions,
              ElementsAre("autocast cpu is absent in A and bfloat16 in B"));
}

TEST(DiffOfJobs, TellsOfWhichJobsModulesWereObserved) {
  SmallJob a, b, observed;
  observed.observe_module();
  const SideFiles of_a = a.side(), of_b = b.side(), second = observed.side();
  const auto observed_sides = [&](const SideFiles& one, const DiffRequest& request) {
    const ComparedPair diff = diff_runs(one, of_b, {}, request);
    return std::array{diff.sides[0].has_modules, diff.sides[1].has_modules};
  };
  EXPECT_THAT(observed_sides(of_a, {}), ElementsAre(false, false));
  EXPECT_THAT(observed_sides(second, {}), ElementsAre(true, false));
  DiffRequest request;
  request.with_modules = {&second, nullptr};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(true, false));
  request.with_modules = {nullptr, &second};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(false, true));
  request.with_modules = {&of_a, &of_b};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(false, false));
}

/// What is told of the update of "v" that is twice as large in B, beside its gradient.
std::string cause_of_update(float gradient_of_b) {
  SmallJob a, b;
  a.observe_update(1, 0.5F);
  b.observe_update(gradient_of_b, 1);
  const ComparedPair diff = diff_runs(a.side(), b.side(), {}, {});
  for (const TensorDifference& one : diff.steps.at(0).tensors) {
    if (one.quantity == Compared::update && one.name == "v") return cause_in_words(one);
  }
  return "there is none";
}

TEST(DiffOfJobs, TakesNoLearningRateForTheCauseOfAnUpdateWhoseGradientDiffers) {
  EXPECT_EQ(cause_of_update(1), "A times 2: as by a learning rate times 2");
  EXPECT_EQ(cause_of_update(2), "A times 2: counted 2 times");
}

/// Some optimizers reduce gradients themselves, so ranks may hold their own. The update tells.
TEST(DiffOfJobs, JudgesTheUpdateOfGradientsThatRanksHoldDifferently) {
  const auto likeness = [](float update) {
    SmallJob a, b(2);
    a.observe_update(1, 0.5F);
    b.observe_update(0.5F, update, 0);
    b.observe_update(1.5F, update, 1);
    const ComparedPair diff = diff_runs(a.side(), b.side(), {}, {});
    for (const TensorDifference& one : diff.steps.at(0).tensors) {
      if (one.quantity == Compared::update && one.name == "v") return one.likeness;
    }
    return Likeness::no_evidence;
  };
  EXPECT_LE(likeness(0.5F), Likeness::rounding);
  EXPECT_EQ(likeness(0.75F), Likeness::different);
}

/// Step 2, in which each rank of B has another multiple of A's gradient of "v".
StepDifference second_step(float first_of_rank_1, float of_rank_0, float of_rank_1) {
  SmallJob a, b(2);
  a.observe_update(1, 0.5F);
  b.observe_update(1, 0.5F, 0);
  b.observe_update(first_of_rank_1, 0.5F, 1);
  a.observe_gradient(1);
  b.observe_gradient(of_rank_0, 0);
  b.observe_gradient(of_rank_1, 1);
  return diff_runs(a.side(), b.side(), {}, {}).steps.at(1);
}

/// An optimizer that reduces gradients itself does so in every step.
TEST(DiffOfJobs, CallsAGradientDifferentThatRanksNoLongerReduce) {
  const StepDifference apart = second_step(1, 0.25F, 0.75F);
  const auto gradient =
      std::ranges::find(apart.tensors, Likeness::different, &TensorDifference::likeness);
  ASSERT_NE(gradient, apart.tensors.end());
  EXPECT_EQ(gradient->name, "v");
  EXPECT_EQ(gradient->kind, FindingKind::gradients_differ);
  EXPECT_THAT(gradient->ranks, ElementsAre(0));
  const auto counts = [](const StepDifference& step) {
    return std::pair(step.count(Likeness::different), step.count(Likeness::undecided));
  };
  EXPECT_THAT(counts(apart), Pair(1, 0));
  EXPECT_THAT(counts(second_step(0.5F, 0.25F, 0.75F)), Pair(0, 1)) << "never whole";
  EXPECT_THAT(counts(second_step(1, 1, 1 + 0x1p-20F)), Pair(0, 1)) << "rounding";
  EXPECT_THAT(counts(second_step(1, 1, 1)), Pair(0, 0));
}

/// Of jobs that agree but for what `observe` adds to each.
ComparedPair diff_of(const std::function<void(SmallJob& a, SmallJob& b)>& observe,
                     const DiffRequest& request = {}) {
  SmallJob a, b;
  for (SmallJob* const job : {&a, &b}) {
    job->observe_update(1, 0.5F);
    job->observe_state(Kind::buffer, "cache", 1);
    job->observe_state(Kind::optimizer_state, "w: exp_avg", 1);
  }
  observe(a, b);
  return diff_runs(a.side(), b.side(), {}, request);
}

void observe_bias(const std::string& name, float value, SmallJob& job) {
  job.observe_state(Kind::buffer, name, value);
  job.record().state_buffers.push_back(name);
}

/// "" if they agree, else the tensor, or why nothing is decided.
std::string told(const ComparedPair& diff) {
  const ClaimResult& result = diff.result;
  return result.verdict == Verdict::violated
             ? fmt::format("{}: {}", result.findings.at(0).tensor, result.findings[0].sentence)
             : result.reason;
}

TEST(DiffOfJobs, CallsAStateOfTheTrainingThatOneSideLacksDifferent) {
  const ComparedPair lost = diff_of([](SmallJob& a, SmallJob&) { observe_bias("bias", 1, a); });
  EXPECT_THAT(told(lost), AllOf(StartsWith("bias: "), HasSubstr("there is none in B")));
  const ComparedPair more = diff_of([](SmallJob&, SmallJob& b) { observe_bias("bias", 1, b); });
  EXPECT_THAT(told(more), AllOf(StartsWith("bias: "), HasSubstr("there is none in A")));
  EXPECT_EQ(told(diff_of([](SmallJob& a, SmallJob& b) {
              observe_bias("bias", 1, a);
              observe_bias("bias", 1, b);
            })),
            "");
  EXPECT_EQ(told(diff_of([](SmallJob& a, SmallJob&) { observe_bias("bias", 0, a); })), "")
      << "zeros are as good as none";
}

TEST(DiffOfJobs, DoesNotKnowWhetherALackingStateHasAnotherName) {
  const auto observe = [](SmallJob& a, SmallJob& b) {
    observe_bias("bias", 1, a);
    observe_bias("correction", 1, b);
  };
  EXPECT_THAT(told(diff_of(observe)), HasSubstr("the buffer of bias: there is none in B by this "
                                                "name, but correction, which may be it (--map)"));
  DiffRequest request;
  request.names.add("bias", {"correction"});
  EXPECT_EQ(told(diff_of(observe, request)), "");
}

TEST(DiffOfJobs, TellsOfOtherBuffersThatOneSideLacks) {
  const ComparedPair diff =
      diff_of([](SmallJob&, SmallJob& b) { b.observe_state(Kind::buffer, "mask", 1); });
  EXPECT_EQ(told(diff), "");
  const auto& tensors = diff.steps.at(0).tensors;
  const auto mask = std::ranges::find(tensors, "mask", &TensorDifference::name);
  ASSERT_NE(mask, tensors.end());
  EXPECT_EQ(mask->quantity, Compared::statistic);
  EXPECT_EQ(mask->likeness, Likeness::different);
}

TEST(DiffOfJobs, CallsAnOptimizerStateDifferentThatOneSideLacksOfOneParameter) {
  const auto keep = [](const std::string& state) {
    return [state](SmallJob& a, SmallJob&) {
      a.observe_state(Kind::optimizer_state, "v: " + state, 1);
    };
  };
  EXPECT_THAT(told(diff_of(keep("exp_avg"))),
              AllOf(StartsWith("v: exp_avg: "), HasSubstr("there is none in B")));
  EXPECT_THAT(told(diff_of(keep("max_exp_avg_sq"))),
              HasSubstr("v: max_exp_avg_sq: optimizers of B keep none"));
  EXPECT_EQ(told(diff_of(keep("step"))), "") << "some count for all parameters at once";
  EXPECT_EQ(told(diff_of([&](SmallJob& a, SmallJob& b) {
              keep("exp_avg")(a, b);
              keep("exp_avg")(b, a);
            })),
            "");
}

TEST(DiffOfJobs, TellsOfASideThatWentFurther) {
  SmallJob a, b;
  EXPECT_EQ(text_of(Prerequisite::steps, a, b), "");
  SmallJob further, shorter;
  further.observe_random_state(0, 4, 1);
  EXPECT_EQ(text_of(Prerequisite::steps, further, shorter),
            "A was observed up to step 4, and B only up to step 2");
  SmallJob other, last;
  last.observe_random_state(0, 3, 1);
  EXPECT_EQ(text_of(Prerequisite::steps, other, last),
            "A was observed only up to step 2, and B up to step 3");
}

/// A job that observes one of several steps may have taken those after its last.
TEST(DiffOfJobs, DoesNotCallAJobShorterThatObservesOneOfSeveralSteps) {
  SmallJob every, some;
  every.observe_random_state(0, 6, 1);
  some.observe_random_state(0, 5, 1);
  EXPECT_EQ(text_of(Prerequisite::steps, every, some), "");
}

TEST(DiffOfJobs, TellsInWhichStepGeneratorsPart) {
  const auto text = [](float of_second_step) {
    SmallJob a, b;
    for (const std::int64_t step : {1, 2}) {
      a.observe_random_state(0, step, static_cast<float>(step));
      b.observe_random_state(0, step, step == 1 ? 1 : of_second_step);
    }
    return random_states_of(a, b);
  };
  EXPECT_EQ(text(2), "the same after 2 of 2 steps");
  EXPECT_EQ(text(3), "they differ after step 2: torch cpu on rank 0");
}

TEST(DiffOfJobs, TellsThatARankHasTheGeneratorOfRankZero) {
  SmallJob a(2), b(2);
  for (int rank = 0; rank < 2; ++rank) {
    a.observe_random_state(rank, 1, static_cast<float>(rank));
    b.observe_random_state(rank, 1, 0);
  }
  EXPECT_EQ(random_states_of(a, b),
            "they differ after step 1: torch cpu on rank 1, where B has that of A's rank 0");
}

TEST(DiffOfJobs, KnowsNothingOfGeneratorsThatWereNotObservedInTheSameSteps) {
  SmallJob neither, nor;
  EXPECT_EQ(random_states_of(neither, nor), "");
  SmallJob a, b;
  a.observe_random_state(0, 1, 1);
  const std::string unknown = "unknown: watch both with --also random-state";
  EXPECT_EQ(random_states_of(a, b), unknown);
  SmallJob early, late;
  early.observe_random_state(0, 1, 1);
  late.observe_random_state(0, 2, 1);
  EXPECT_EQ(random_states_of(early, late), unknown);
}

}  // namespace
}  // namespace lockstep
