#include "reports/record/estimates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"

namespace lockstep {
namespace {

TEST(EstimatesInWords, HaveAsManyDigitsAsTheirErrorLeaves) {
  EXPECT_EQ(ratio_in_words(1.2345678, 0.1), "1.2 (±8 %)");
  EXPECT_EQ(ratio_in_words(1.2345678, 0.001), "1.235 (±0.1 %)");
  EXPECT_EQ(ratio_in_words(1.2345678, std::nullopt), "1.235");
  EXPECT_EQ(ratio_in_words(-2.5, 1.0), "-2 (±40 %)");
}

TEST(EstimatesInWords, OfCosinesHaveAnAbsoluteError) {
  EXPECT_EQ(cosine_in_words(-0.1234, 0.18), "-0.12 (±0.18)");
  EXPECT_EQ(cosine_in_words(0.999, 0.00036), "1 - 0.001 (±36 %)");
  EXPECT_EQ(cosine_in_words(0.45, std::nullopt), "0.45");
}

TEST(EstimatesInWords, ShowTheDifferenceFromOne) {
  EXPECT_EQ(ratio_in_words(1 + std::ldexp(1, -11), std::nullopt), "1 + 0.0004883");
  EXPECT_EQ(ratio_in_words(1 - 0.0031, 0.001), "1 - 0.003 (±32 %)");
  EXPECT_EQ(ratio_in_words(1, std::nullopt), "1");
  EXPECT_EQ(ratio_in_words(1, 0.1), "1");
}

Sketch sketch_of(const std::vector<float>& numbers) {
  Observation row;
  row.dtype = "float32";
  row.global_shape = row.local_shape = {static_cast<std::int64_t>(numbers.size())};
  row.offset = {0};
  return lockstep::sketch_of(row, std::as_bytes(std::span(numbers)));
}

/// Two standard deviations, so 19 of 20 estimates are within.
TEST(ErrorsOfEstimates, HoldForSketchesOfRandomTensors) {
  constexpr int kTrials = 400;
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const double rest : {0.1, 0.5, 2.0}) {
    int ratios = 0, cosines = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<float> a(1000), b(1000);
      double aa = 0, ab = 0, bb = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<float>(normal(random));
        b[i] = static_cast<float>(1.28 * a[i] + rest * normal(random));
        aa += double{a[i]} * a[i];
        ab += double{a[i]} * b[i];
        bb += double{b[i]} * b[i];
      }
      const Sketch of_a = sketch_of(a), of_b = sketch_of(b);
      const double product = product_of(of_a, of_b), squares = product_of(of_a, of_a);
      const double ratio = product / squares;
      const double cosine = product / std::sqrt(squares * product_of(of_b, of_b));
      const double true_cosine = ab / std::sqrt(aa * bb);
      const double true_rest = std::sqrt(1 - true_cosine * true_cosine);
      ratios += std::abs(ratio - ab / aa) <= error_of_ratio(ratio, true_cosine, true_rest) ? 1 : 0;
      cosines += std::abs(cosine - true_cosine) <= error_of_cosine(true_cosine) ? 1 : 0;
    }
    EXPECT_GT(ratios, 0.93 * kTrials) << rest;
    EXPECT_LT(ratios, 0.99 * kTrials) << "the error is too wide at " << rest;
    EXPECT_GT(cosines, 0.93 * kTrials) << rest;
    EXPECT_LT(cosines, 0.99 * kTrials) << "the error is too wide at " << rest;
  }
}

}  // namespace
}  // namespace lockstep
