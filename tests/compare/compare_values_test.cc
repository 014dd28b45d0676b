#include "harness/compare/compare_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/whole_tensors.h"
#include "tests/diff/literal_step.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr double kTolerance = 1e-4;

WholeTensor tensor_of(const std::vector<float>& numbers) {
  const WholeTensors tensors(LiteralStep(1).whole(0, "w", numbers).view());
  return tensors.all()[0].second;
}

std::vector<float> ramp(float factor, float added_to_first = 0) {
  std::vector<float> numbers;
  for (int i = 1; i <= 200; ++i) numbers.push_back(static_cast<float>(i) * factor);
  numbers[0] += added_to_first;
  return numbers;
}

TensorDifference compare(const std::vector<float>& a, const std::vector<float>& b, int ranks = 4) {
  return compare_values(tensor_of(a), tensor_of(b), {limit_of(kTolerance), {}}, 0, {ranks});
}

/// Clipping each rank's gradient before the mean turns it a little: its length is no multiple.
TEST(CompareValues, FindsNoMultipleWhereTheRatioLeavesARest) {
  std::vector<float> turned = ramp(0.7245F);
  for (std::size_t i = 0; i < turned.size(); i += 2) turned[i] *= 1.06F;
  const TensorDifference found = compare(ramp(1), turned, 2);
  EXPECT_EQ(found.likeness, Likeness::different);
  EXPECT_NEAR(*found.rest, 0.03, 0.01);
  EXPECT_NEAR(*found.ratio, std::sqrt(0.5), 0.05);
  EXPECT_FALSE(found.multiple);
}

TEST(CompareValues, KnowsEqualBits) {
  EXPECT_EQ(compare(ramp(1), ramp(1)).likeness, Likeness::equal);
  EXPECT_EQ(compare(ramp(0), ramp(0)).likeness, Likeness::equal);
}

TEST(CompareValues, DoesNotTakeTheBitsOfAnotherTypeForTheSame) {
  WholeTensor other = tensor_of(ramp(1));
  other.dtype = "int32";
  EXPECT_NE(compare_values(tensor_of(ramp(1)), other, {limit_of(kTolerance), {}}, 0, {2}).likeness,
            Likeness::equal);
  other.sketch.reset();
  EXPECT_FALSE(distance_of(tensor_of(ramp(1)), other));
}

TEST(CompareValues, JudgesBySizeOfTheDifference) {
  // The norm of the ramp is 1639.
  EXPECT_EQ(compare(ramp(1), ramp(1, 0.05F)).likeness, Likeness::rounding);
  EXPECT_EQ(compare(ramp(1), ramp(1, 0.4F)).likeness, Likeness::undecided);
  const TensorDifference found = compare(ramp(1), ramp(1, 2));
  EXPECT_EQ(found.likeness, Likeness::different);
  EXPECT_NEAR(found.relative, 2 / 1639.0, 0.2 * 2 / 1639.0);
  EXPECT_TRUE(found.estimate_error);
  EXPECT_FALSE(found.multiple);
}

TEST(CompareValues, CountsTheBoundsThemselvesAsWithin) {
  // Few elements, so that sketches are exact: the distance is 3, and the larger norm 5.
  const WholeTensor a = tensor_of({3, 4}), b = tensor_of({0, 4});
  const auto likeness = [&](double tolerance) {
    return compare_values(a, b, {limit_of(tolerance), {}}, 0, {2}).likeness;
  };
  constexpr double kOneFifth = 0.12;
  static_assert(kFault * kOneFifth == 0.6);
  EXPECT_EQ(likeness(0.6), Likeness::rounding);
  EXPECT_EQ(likeness(0.59), Likeness::undecided);
  EXPECT_EQ(likeness(kOneFifth), Likeness::undecided);
  EXPECT_EQ(likeness(0.119), Likeness::different);
}

TEST(CompareValues, TakesDistancesOfNormsAtTheBoundAsUndecided) {
  WholeTensor a = tensor_of({3, 4}), b = tensor_of({0, 2});
  a.sketch.reset();
  constexpr double kOneFifth = 0.12;
  EXPECT_EQ(compare_values(a, b, {limit_of(kOneFifth), {}}, 0, {2}).likeness, Likeness::undecided);
  EXPECT_EQ(compare_values(a, b, {limit_of(0.119), {}}, 0, {2}).likeness, Likeness::different);
}

TEST(CompareValues, NamesMultiplesExactly) {
  const TensorDifference twice = compare(ramp(1), ramp(2), 2);
  ASSERT_TRUE(twice.multiple);
  EXPECT_THAT(in_words(*twice.multiple), HasSubstr("2: summed over 2 ranks, never averaged"));
  EXPECT_DOUBLE_EQ(*twice.ratio, 2);
  EXPECT_DOUBLE_EQ(twice.relative, 0.5);
  EXPECT_FALSE(twice.estimate_error);
  EXPECT_THAT(in_words(compare(ramp(4), ramp(1)).multiple.value()),
              HasSubstr("1/4: averaged twice over 4 ranks"));
  EXPECT_EQ(compare(ramp(1), ramp(-1)).cosine, -1);
}

TEST(CompareValues, TakesTheDistanceFromTheRatioOnlyIfLittleElseDiffers) {
  // Elements of a tensor without an error: 1 % larger, and as far apart in another direction.
  std::vector<float> a(16, 1), b(16, 1.01F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += i % 2 == 0 ? 0.02F : -0.02F;
  const TensorDifference found =
      compare_values(tensor_of(a), tensor_of(b), {limit_of(0.02), {}}, 0, {2});
  EXPECT_EQ(found.likeness, Likeness::undecided);
  EXPECT_NEAR(found.relative, 0.0221, 1e-4) << "above the tolerance";
  EXPECT_FALSE(found.estimate_error);
}

/// A tensor of 16 ones, and one that is `larger` times as large and `apart` of its norm away in
/// another direction.
TensorDifference compare_ones(float larger, float apart, double tolerance, int ranks = 2) {
  std::vector<float> a(16, 1), b(16, larger);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += i % 2 == 0 ? apart : -apart;
  return compare_values(tensor_of(a), tensor_of(b), {limit_of(tolerance), {}}, 0, {ranks});
}

TEST(CompareValues, CountsARestIntoTheDistanceFromATenthOfItOn) {
  for (const float rest : {0.03F, 0.015F, 0.011F}) {
    const TensorDifference found = compare_ones(1.1F, rest, 0.01);
    EXPECT_NEAR(found.relative, std::hypot(0.1, rest) / std::hypot(1.1, rest), 1e-6) << rest;
    EXPECT_EQ(found.likeness, Likeness::different);
  }
  const float small = 0.009F;
  EXPECT_NEAR(compare_ones(1.1F, small, 0.01).relative, 0.1 / std::hypot(1.1, small), 1e-6);
}

TEST(CompareValues, NamesNoCauseThatIsTenRestsAway) {
  EXPECT_FALSE(compare_ones(2.02F, 0.002F, kTolerance).multiple);
  EXPECT_TRUE(compare_ones(2.002F, 0.002F, kTolerance).multiple);
}

TEST(CompareValues, LeavesSmallTensorsToTheNormOfAll) {
  const WholeTensor noise = tensor_of(ramp(1e-9F)), other = tensor_of(ramp(-2e-9F));
  EXPECT_EQ(compare_values(noise, other, {limit_of(kTolerance), {}}, 0, {2}).likeness,
            Likeness::different);
  EXPECT_EQ(compare_values(noise, other, {limit_of(kTolerance), {}}, 10, {2}).likeness,
            Likeness::rounding);
}

TEST(CompareValues, TakesAHundredthOfTheNormOfAllForThatOfASmallTensor) {
  const WholeTensor a = tensor_of({3, 4}), b = tensor_of({0, 4});
  const auto compare_among = [&](double all) {
    return compare_values(a, b, {limit_of(kTolerance), {}}, all, {2});
  };
  EXPECT_DOUBLE_EQ(compare_among(1000).relative, 0.3);
  EXPECT_TRUE(compare_among(1000).is_of_all);
  EXPECT_DOUBLE_EQ(compare_among(400).relative, 0.6);
  EXPECT_FALSE(compare_among(400).is_of_all);
}

TEST(CompareValues, ReportsOtherSizesAndNumbersThatAreNotFinite) {
  const TensorDifference size = compare(ramp(1), {1, 2});
  EXPECT_EQ(size.likeness, Likeness::different);
  EXPECT_EQ(size.cause, "200 elements in A and 2 in B");
  WholeTensor turned = tensor_of(ramp(1));
  turned.shape = {{2, 100}};
  const TensorDifference shape =
      compare_values(tensor_of(ramp(1)), turned, {limit_of(kTolerance), {}}, 0, {2});
  EXPECT_EQ(shape.kind, FindingKind::other_shape) << "of the same bits";
  EXPECT_EQ(shape.cause, "shape [100, 2] in A and [2, 100] in B");
  std::vector<float> damaged = ramp(1);
  damaged[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare(ramp(1), damaged).cause, "1 elements are not finite in B");
}

TEST(CompareValues, DoesNotDecideWithoutValues) {
  WholeTensor a = tensor_of(ramp(1)), b = tensor_of(ramp(1, 0.01F));
  a.sketch.reset();
  EXPECT_EQ(compare_values(a, b, {limit_of(kTolerance), {}}, 0, {2}).likeness, Likeness::undecided);
  b = tensor_of(ramp(2));
  EXPECT_EQ(compare_values(a, b, {limit_of(kTolerance), {}}, 0, {2}).likeness, Likeness::different);
  b.problem = "ranks hold 3 of its 4 elements";
  const TensorDifference unknown = compare_values(a, b, {limit_of(kTolerance), {}}, 0, {2});
  EXPECT_EQ(unknown.likeness, Likeness::undecided);
  EXPECT_EQ(unknown.cause, b.problem);
}

TEST(CompareValues, ReportsGradientsOfOneSide) {
  WholeTensor none;
  none.is_undefined = true;
  const TensorDifference only_a =
      compare_values(tensor_of(ramp(1)), none, {limit_of(kTolerance), {}}, 0, {2});
  EXPECT_EQ(only_a.likeness, Likeness::different);
  EXPECT_EQ(only_a.cause, "there is none in B");
  EXPECT_EQ(compare_values(none, tensor_of(ramp(1)), {limit_of(kTolerance), {}}, 0, {2}).cause,
            "there is none in A");
  EXPECT_EQ(compare_values(none, tensor_of(ramp(0)), {limit_of(kTolerance), {}}, 0, {2}).likeness,
            Likeness::equal);
  EXPECT_EQ(compare_values(none, none, {limit_of(kTolerance), {}}, 0, {2}).likeness,
            Likeness::equal);
}

TEST(CompareValues, BoundsByTheCoarserType) {
  WholeTensor single, half;
  single.dtype = "float32";
  half.dtype = "bfloat16";
  EXPECT_DOUBLE_EQ(rounding_of_layouts(single, single, {}).sum(), 512.0 / (1 << 24));
  EXPECT_DOUBLE_EQ(rounding_of_layouts(single, half, {}).sum(), 1.0 / 32);
  EXPECT_DOUBLE_EQ(rounding_of_layouts(single, half, {}).of_multiple(), 1.0 / 128);
  EXPECT_DOUBLE_EQ(rounding_of_layouts(single, single, {.weights_apart = 1e-6}).carried, 1e-3);
  const StepRounding computed{.roundoff = roundoff_of(half.dtype)};
  EXPECT_DOUBLE_EQ(rounding_of_layouts(single, single, computed).sum(), 1.0 / 32);
}

TEST(CompareValues, FindsNoEvidenceInGradientsThatAreZeroUpToRounding) {
  constexpr double kBound = 1e-4;
  const WholeTensor noise = tensor_of({1e-5F, -1e-5F}), real = tensor_of({1e-3F, -1e-3F});
  EXPECT_TRUE(is_without_evidence(noise, noise, kBound, 1));
  EXPECT_FALSE(is_without_evidence(noise, real, kBound, 1)) << "wrongly 0 on one side";
  EXPECT_FALSE(is_without_evidence(real, real, kBound, 1)) << "small, but no noise";
  EXPECT_FALSE(is_without_evidence(noise, noise, kBound, 0));
  WholeTensor unknown = noise;
  unknown.problem = "ranks 0 and 1 hold different values of it";
  EXPECT_FALSE(is_without_evidence(noise, unknown, kBound, 1));
}

TEST(CompareValues, JudgesMultiplesByTheirOwnBound) {
  const auto likeness = [](float factor, float apart) {
    std::vector<float> a(16, 1), b(16, factor);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] += i % 2 == 0 ? apart : -apart;
    const Bound bound{limit_of(0.1), limit_of(0.01)};
    return compare_values(tensor_of(a), tensor_of(b), bound, 0, {2}).likeness;
  };
  EXPECT_EQ(likeness(1.08F, 0), Likeness::different);
  EXPECT_EQ(likeness(1.03F, 0), Likeness::undecided);
  EXPECT_EQ(likeness(1.009F, 0), Likeness::rounding);
  EXPECT_EQ(likeness(1.08F, 0.04F), Likeness::rounding) << "no multiple";
}

/// Two components that neither sketch sees: found by their definition.
std::pair<std::size_t, std::size_t> unseen_pair() {
  for (std::uint64_t other = 1;; ++other) {
    const SketchBlock a = sketch_block(0), b = sketch_block(other / 64);
    const std::uint64_t k = other % 64;
    const bool has_other_sign = (a.signs & 1) != (b.signs >> k & 1);
    if (a.lane == (k ^ b.lane) && a.second_lane == (k ^ b.second_lane) && !has_other_sign &&
        a.is_second_negative == b.is_second_negative) {
      return {0, other};
    }
  }
}

/// Digests tell that elements were exchanged, and nothing tells how far apart the tensors are.
TEST(CompareValues, LeavesUndecidedWhatSketchesDoNotShow) {
  const auto [one, other] = unseen_pair();
  std::vector<float> values(other + 1);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  if (values.size() % 2 == 1) values.push_back(1);
  const auto whole = [](const std::vector<float>& numbers, std::size_t cut) {
    LiteralStep step(2);
    const auto begin = numbers.begin();
    const auto rows = static_cast<std::int64_t>(numbers.size() / 2);
    const auto first = static_cast<std::ptrdiff_t>(cut);
    if (cut == 0) return WholeTensors(step.whole(0, "w", numbers).view()).all().at(0).second;
    step.part(0, "w", {begin, begin + 2 * first}, 0, rows);
    step.part(1, "w", {begin + 2 * first, numbers.end()}, first, rows);
    return WholeTensors(step.view()).all().at(0).second;
  };
  const WholeTensor a = whole(values, 0);
  auto exchanged = values;
  std::swap(exchanged[one], exchanged[other]);
  for (const std::size_t cut : {std::size_t{0}, values.size() / 6}) {  // rounding, if cut
    const TensorDifference found =
        compare_values(a, whole(exchanged, cut), {limit_of(1e-5), {}}, 0, {});
    EXPECT_EQ(found.likeness, Likeness::undecided) << cut;
    EXPECT_EQ(found.cause, "the bits differ, and the sketches do not see where");
    EXPECT_EQ(compare_values(a, whole(values, cut), {limit_of(1e-5), {}}, 0, {}).likeness,
              Likeness::equal);
    WholeTensor stored = a, other_stored = whole(exchanged, cut);  // which shows it
    stored.numbers = std::make_shared<std::vector<double>>(values.begin(), values.end());
    other_stored.numbers =
        std::make_shared<std::vector<double>>(exchanged.begin(), exchanged.end());
    const TensorDifference shown =
        compare_values(stored, other_stored, {limit_of(1e-5), {}}, 0, {});
    EXPECT_EQ(shown.likeness, Likeness::different);
    EXPECT_FALSE(shown.is_estimate || shown.estimate_error);
    auto rounded = values;
    rounded[3] = std::nextafter(rounded[3], 9.0F);
    EXPECT_EQ(compare_values(a, whole(rounded, cut), {limit_of(1e-5), {}}, 0, {}).likeness,
              Likeness::rounding);
  }
}

}  // namespace
}  // namespace lockstep
