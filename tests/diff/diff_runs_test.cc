#include "harness/diff/diff_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/record/process_identity.h"
#include "reports/comparison/tensor_words.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

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

  /// In step 1, of a parameter "v": `gradient` and `update` times the same numbers.
  void observe_update(float gradient, float update) {
    std::vector<float> before(32, 1), gradients, after;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const float number = (i % 2 == 0 ? 1.0F : -1.0F) * static_cast<float>(i + 1) / 64;
      gradients.push_back(gradient * number);
      after.push_back(1 - update * number);
    }
    files_.add(0, 1, "v", before, {Kind::parameter, Phase::pre_forward, 0});
    files_.add(0, 1, "v", gradients);
    files_.add(0, 1, "v", after, {Kind::parameter, Phase::post_step, 0});
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
