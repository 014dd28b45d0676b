#include "harness/diff/compare_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "harness/diff/hyperparameters.h"
#include "reports/comparison/tensor_words.h"
#include "tests/diff/literal_step.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

WholeTensor weights_of(const std::vector<float>& numbers) {
  return WholeTensors(LiteralStep(1).whole(0, "w", numbers).view()).all()[0].second;
}

WholeTensor values_of(const std::vector<float>& numbers) {
  WholeTensor tensor = weights_of(numbers);
  tensor.digest.reset();  // as of an update
  return tensor;
}

std::vector<float> update(float factor, int elements = 64) {
  std::vector<float> numbers;
  for (int i = 1; i <= elements; ++i) {
    numbers.push_back(static_cast<float>(i % 2 == 0 ? i : -i) * factor);
  }
  return numbers;
}

std::vector<float> with_flips(std::vector<float> numbers, int count) {
  for (int i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] *= -1;
  return numbers;
}

/// Of weights that are ten times as large.
TensorDifference compare_both(const std::vector<float>& a, const std::vector<float>& b,
                              const UpdateInputs& inputs) {
  const WholeTensor of_a = values_of(a), of_b = values_of(b);
  const Bound bound = bound_of_update(of_a, of_b, values_of(update(10)), inputs);
  return compare_updates(of_a, of_b, bound, inputs, 0, {2});
}

UpdateInputs equal_inputs() {
  UpdateInputs inputs;
  inputs.are_equal = true;
  inputs.is_by_element = true;
  return inputs;
}

UpdateInputs rounded_inputs() {
  UpdateInputs inputs;
  inputs.is_by_element = true;
  inputs.own_rounding = 1e-6;
  return inputs;
}

TEST(CompareUpdates, AllowsRoundingOnlyIfTheInputsAreEqual) {
  EXPECT_EQ(compare_both(update(1), update(1.00001F), equal_inputs()).likeness, Likeness::rounding);
  EXPECT_EQ(compare_both(update(1), update(1.001F), equal_inputs()).likeness, Likeness::different);
  const TensorDifference flipped =
      compare_both(update(1), with_flips(update(1), 2), equal_inputs());
  EXPECT_EQ(flipped.likeness, Likeness::different);
  EXPECT_EQ(compare_both(update(1), with_flips(update(1), 2), rounded_inputs()).likeness,
            Likeness::rounding);
  EXPECT_TRUE(flipped.has_equal_inputs);
}

/// Of a matrix: Muon turns directions of almost no gradient, in bfloat16, whatever the gradients'
/// type is, and changes no size.
TEST(CompareUpdates, AllowsWhatMuonTurns) {
  UpdateInputs inputs = rounded_inputs();
  inputs.is_by_element = false;
  const auto compared = [&](const std::vector<float>& b) {
    return compare_both(update(1), b, inputs).likeness;
  };
  const std::vector<float> turned = with_flips(update(1), 16);
  EXPECT_EQ(compared(turned), Likeness::different);
  inputs.has_muon = true;
  EXPECT_EQ(compared(turned), Likeness::rounding);
  EXPECT_EQ(compared(with_flips(update(1), 40)), Likeness::different);
  EXPECT_EQ(compared(update(1.2F)), Likeness::different);
  inputs.are_equal = true;
  EXPECT_EQ(compared(turned), Likeness::rounding);
  EXPECT_EQ(compared(update(1.2F)), Likeness::different);
  inputs.has_other_gradient = true;
  EXPECT_NE(compared(turned), Likeness::rounding) << "the gradient differs";
}

/// One of 32 elements is a third of the norm, and may turn over where gradients are rounded by 1 %.
TEST(CompareUpdates, AllowsOneElementToTurnOver) {
  UpdateInputs inputs = rounded_inputs();
  const std::vector<float> ones(32, 1);
  const auto compared = [&](double rounding, int count) {
    inputs.rounding = rounding;
    return compare_both(ones, with_flips(ones, count), inputs).likeness;
  };
  EXPECT_EQ(compared(0.01, 1), Likeness::rounding);
  EXPECT_EQ(compared(0.01, 4), Likeness::undecided);
  EXPECT_EQ(compared(1e-6, 1), Likeness::different);
}

TEST(CompareUpdates, AllowsTheRoundingOfTheParameter) {
  const WholeTensor one = values_of(update(1)), weights = values_of(update(1e4F));
  EXPECT_NEAR(bound_of_update(one, one, weights, equal_inputs()).whole.within,
              512.0 / (1 << 24) + 4e4 / (1 << 24), 1e-9);
}

TEST(CompareUpdates, AreBoundedByTheRoundingOfGradients) {
  const WholeTensor one = values_of(update(1));
  WholeTensor none = one;
  none.norm = 0;  // of a parameter, so that its own rounding counts nothing
  constexpr double kArithmetic = 512.0 / (1 << 24);
  UpdateInputs inputs = rounded_inputs();
  inputs.rounding = 1e-5;
  const Bound bound = bound_of_update(one, one, none, inputs);
  EXPECT_DOUBLE_EQ(bound.whole.within, 0.02 + 10 * inputs.rounding);
  EXPECT_DOUBLE_EQ(bound.multiple.value().within, kArithmetic + 10 * *inputs.own_rounding);
  inputs.has_other_gradient = true;
  EXPECT_FALSE(bound_of_update(one, one, none, inputs).multiple);
}

TEST(BoundOfState, FollowsFromTheGradientsSoFar) {
  const WholeTensor moments = values_of(update(1));
  constexpr double kArithmetic = 512.0 / (1 << 24);
  const auto bound = [&](const UpdateInputs& inputs) {
    return bound_of_state(moments, moments, false, inputs).whole.within;
  };
  EXPECT_DOUBLE_EQ(bound(equal_inputs()), kArithmetic);
  UpdateInputs inputs = rounded_inputs();
  EXPECT_DOUBLE_EQ(bound(inputs), kArithmetic + 20 * 1e-6);
  inputs.largest = 3 * moments.norm;  // what is left of moments that cancelled
  EXPECT_DOUBLE_EQ(bound(inputs), kArithmetic + 60 * 1e-6);
  inputs.own_rounding.reset();
  EXPECT_DOUBLE_EQ(bound(inputs), 0.02) << "the gradients are not known from the beginning";
  inputs = rounded_inputs();
  inputs.is_by_element = false;
  EXPECT_DOUBLE_EQ(bound(inputs), 0.02);
}

TEST(BoundOfState, AllowsNoOtherNumberOfSteps) {
  const WholeTensor moments = values_of(update(1));
  EXPECT_EQ(bound_of_state(moments, moments, true, rounded_inputs()), Bound{});
}

/// Updates of ones, and of those that are 2 % larger and by `apart` in another direction.
TensorDifference compare_faster(float apart, double bound, bool is_by_element = true) {
  std::vector<float> a(64, 1), b(64, 1.02F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += i % 2 == 0 ? apart : -apart;
  UpdateInputs inputs = rounded_inputs();
  inputs.is_by_element = is_by_element;
  return compare_updates(values_of(a), values_of(b),
                         {limit_of(0.5), limit_of(bound), is_by_element}, inputs, 0, {2});
}

TEST(CompareUpdates, CallMultiplesDifferentBeyondFiveBounds) {
  EXPECT_EQ(compare_faster(0, 0.001).likeness, Likeness::different);
  EXPECT_EQ(compare_faster(0, 0.01).likeness, Likeness::undecided);
  EXPECT_EQ(compare_faster(0, 0.03).likeness, Likeness::rounding);
}

TEST(CompareUpdates, TakeNoMultipleWhoseRestIsHalfAsLarge) {
  EXPECT_EQ(compare_faster(0.005F, 0.001).likeness, Likeness::different);
  EXPECT_EQ(compare_faster(0.01F, 0.001).likeness, Likeness::rounding);
}

TEST(CompareUpdates, LeaveSmallOnesToTheNormOfAllUnlessTheyAreExact) {
  const WholeTensor a = values_of(update(1)), b = values_of(with_flips(update(1), 2));
  const Bound bound{.whole = limit_of(0.001), .multiple = {}};
  UpdateInputs inputs = equal_inputs();
  const auto likeness = [&] { return compare_updates(a, b, bound, inputs, 1e9, {2}).likeness; };
  EXPECT_EQ(likeness(), Likeness::different);
  inputs.is_by_element = false;
  EXPECT_EQ(likeness(), Likeness::rounding);
}

TEST(CompareUpdates, FindsMultiplesAmongRoundedGradients) {
  const TensorDifference faster = compare_both(update(1), update(1.01F), rounded_inputs());
  EXPECT_EQ(faster.likeness, Likeness::different);
  EXPECT_EQ(cause_in_words(faster), "A times 1.01: as by a learning rate times 1.01");
  EXPECT_FALSE(faster.kind) << "a wrong update";
  UpdateInputs far = rounded_inputs();
  far.own_rounding = 1e-3;
  EXPECT_EQ(compare_both(update(1), update(1.01F), far).likeness, Likeness::rounding);
  far.own_rounding = 1e-6;
  far.largest = 1000 * values_of(update(1)).norm;  // it is what is left of larger ones
  EXPECT_EQ(compare_both(update(1), update(1.01F), far).likeness, Likeness::rounding);
  far.largest = 0;
  far.own_rounding.reset();
  EXPECT_EQ(compare_both(update(1), update(1.01F), far).likeness, Likeness::rounding);
}

TEST(CompareUpdates, LeavesOptimizersOpenThatRoundSumsOfTheirOwn) {
  UpdateInputs unknown = equal_inputs();
  unknown.is_by_element = false;
  EXPECT_EQ(compare_both(update(1), update(1.01F), unknown).likeness, Likeness::undecided);
  EXPECT_EQ(compare_both(update(1), with_flips(update(1), 2), unknown).likeness,
            Likeness::rounding);
}

TEST(CompareUpdates, FindsNoDirectionInFewElements) {
  EXPECT_EQ(compare_both(update(1, 8), update(1.01F, 8), rounded_inputs()).likeness,
            Likeness::rounding);
}

TEST(CompareUpdates, NamesOneCauseOfAMultiple) {
  EXPECT_EQ(cause_in_words(compare_both(update(1), update(0.5F), equal_inputs())),
            "A times 1/2: as by a learning rate times 1/2");
  EXPECT_EQ(cause_in_words(compare_both(update(1), update(2), rounded_inputs())),
            "A times 2: as by a learning rate times 2");
  EXPECT_EQ(cause_in_words(compare_both(update(1), update(-1), equal_inputs())),
            "A times -1: the sign is flipped");
  EXPECT_EQ(cause_in_words(compare_both(update(1), with_flips(update(-1), 60), equal_inputs())),
            "");
  UpdateInputs other = rounded_inputs();
  other.has_other_gradient = true;
  EXPECT_EQ(cause_in_words(compare_both(update(1), update(2), other)),
            "A times 2: summed over 2 ranks, never averaged, or counted 2 times");
}

JobRecord job_with(const std::vector<std::pair<std::string, std::string>>& settings) {
  JobRecord job;
  for (const auto& [name, value] : settings) job.configuration.push_back({name, value, {0}});
  return job;
}

TEST(Optimizers, AreByElementIfTheyAreTorchs) {
  EXPECT_TRUE(has_optimizers_by_element(
      job_with({{"torch", "2.11"}, {"AdamW group 0.foreach", "None"}, {"AdamW group 0.lr", "1"}})));
  EXPECT_FALSE(has_optimizers_by_element(job_with({{"torch", "2.11"}})));
  EXPECT_FALSE(has_optimizers_by_element(job_with({{"AdamW.lr", "1"}})));  // of another library
  EXPECT_FALSE(has_optimizers_by_element(
      job_with({{"Muon.lr", "1"}, {"AdamW 1.foreach", "None"}, {"AdamW 1.lr", "1"}})));
  EXPECT_FALSE(has_optimizers_by_element(job_with({{"SGD 7.foreach", "None"}})));  // others follow
}

TEST(Optimizers, AreTorchsMuonIfTheyHaveItsIterations) {
  EXPECT_TRUE(has_muon(job_with({{"AdamW 1.lr", "1"}, {"Muon 0.ns_steps", "5"}})));
  EXPECT_FALSE(has_muon(job_with({{"Muon.lr", "1"}})));
  EXPECT_FALSE(has_muon(job_with({{"AdamW.lr", "1"}})));
}

TEST(Hyperparameters, DifferByTheirValues) {
  const JobRecord job = job_with({{"torch", "2.11"},
                                  {"AdamW.lr", "0.0001"},
                                  {"AdamW.eps", "1e-8"},
                                  {"AdamW.foreach", "None"},
                                  {"AdamW.betas", "(0.9, 0.999)"}});
  EXPECT_THAT(differing_hyperparameters(job, job, 0), IsEmpty());
  EXPECT_THAT(differing_hyperparameters(
                  job, job_with({{"AdamW.lr", "1e-04"}, {"AdamW.foreach", "False"}}), 0),
              IsEmpty());
  EXPECT_THAT(differing_hyperparameters(job, job_with({{"AdamW 0.betas", "(0.9, 0.95)"}}), 0),
              ElementsAre("betas is (0.9, 0.999) in A and (0.9, 0.95) in B"));
  EXPECT_THAT(
      differing_hyperparameters(
          job, job_with({{"AdamW group 0.lr", "0.0001"}, {"AdamW group 1.lr", "0.0001"}}), 0),
      IsEmpty());
  const JobRecord two = job_with({{"AdamW group 0.lr", "0.0001"}, {"AdamW group 1.lr", "0.1"}});
  EXPECT_THAT(differing_hyperparameters(job, two, 0),
              ElementsAre("lr is 0.0001 in A and 0.0001 and 0.1 in B"));
  // Of so many groups others may not be known.
  EXPECT_THAT(differing_hyperparameters(two, job_with({{"AdamW group 3.lr", "0.1"}}), 0),
              IsEmpty());
}

TEST(UpdateOf, TakesDifferencesOfSketches) {
  std::vector<float> moved = update(1);
  moved[0] += 3;
  const WholeTensor before = weights_of(update(1)), after = weights_of(moved);
  EXPECT_DOUBLE_EQ(update_of(before, after).norm, 3);
  EXPECT_DOUBLE_EQ(update_of(before, before).norm, 0);
  WholeTensor unknown = after;
  unknown.sketch.reset();
  EXPECT_NE(update_of(before, unknown).problem, "");
  EXPECT_EQ(update_of(before, unknown).norm, 0);  // not that of the weights
  unknown.problem = "ranks 0 and 1 hold different values of it";
  EXPECT_EQ(update_of(before, unknown).norm, 0);
  WholeTensor unmoved = before;
  unmoved.sketch.reset();
  EXPECT_EQ(update_of(unmoved, unmoved).problem, "") << "by digests alone";
}

}  // namespace
}  // namespace lockstep
