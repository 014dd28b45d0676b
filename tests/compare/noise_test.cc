#include "harness/compare/noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;

Noise noise_of(double a, double b, double c, bool is_perturbed = true) {
  return {{{{Compared::gradient, "a"}, {a, a}},
           {{Compared::gradient, "b"}, {b, b}},
           {{Compared::gradient, "c"}, {c, c}},
           {{Compared::update, "a"}, {1, 1}}},
          is_perturbed};
}

Bound widened(const Noise& noise, const Bound& bound = {{}, Limit{}}) {
  return noise.widened(bound, Compared::gradient, "a");
}

TEST(Noise, OfPerturbationsBoundsWhatRoundingDoes) {
  const Noise perturbed = noise_of(1e-3, 0, 0);
  const Limit limit = widened(perturbed).whole;
  EXPECT_DOUBLE_EQ(limit.within, 3e-3);
  EXPECT_DOUBLE_EQ(limit.beyond, 1e-2);
  const Bound of_precision{limit_of(4e-3), limit_of(5e-3)};
  EXPECT_EQ(widened(perturbed, of_precision), of_precision) << "which is never below it";
  EXPECT_EQ(perturbed.widened(of_precision, Compared::gradient, "another"), of_precision);
  EXPECT_EQ(perturbed.widened(of_precision, Compared::loss, "a"), of_precision);
}

TEST(Noise, OfParametersThatAreFurtherApartIsInProportion) {
  Noise noise = noise_of(1e-3, 0, 0);
  EXPECT_DOUBLE_EQ(widened(noise.of_weights_apart(1)).whole.within, 3e-3) << "of none is known";
  noise.weights_apart = 1e-6;
  EXPECT_DOUBLE_EQ(widened(noise.of_weights_apart(4e-6)).whole.within, 12e-3);
  EXPECT_DOUBLE_EQ(widened(noise.of_weights_apart(1e-7)).whole.within, 3e-3);
}

/// Rounding turns a tensor more than it stretches it.
TEST(Noise, BoundsMultiplesByThemselves) {
  TensorDifference one;
  one.quantity = Compared::gradient;
  one.name = "a";
  one.relative = 0.02;
  one.ratio = 0.999;
  Noise noise{{}, true};
  noise.add(one);
  EXPECT_NEAR(widened(noise).multiple->within, 3e-3, 1e-9);
  EXPECT_DOUBLE_EQ(widened(noise).whole.within, 0.06);
  EXPECT_FALSE(widened(noise, {}).multiple) << "none is told by the layouts";
  one.ratio.reset();  // unknown: it may be all of it
  noise.add(one);
  EXPECT_DOUBLE_EQ(widened(noise).multiple->within, 0.06);
  noise.is_perturbed = false;
  EXPECT_DOUBLE_EQ(widened(noise).multiple->within, 0.2);
}

/// Of updates by optimizers that add up elements: what layouts leave open, perturbations measure.
TEST(Noise, OfPerturbationsDecidesMultiples) {
  const Bound open{limit_of(1e-4), limit_of(1e-4), false};
  EXPECT_TRUE(widened(noise_of(1e-3, 0, 0), open).decides_multiples);
  EXPECT_FALSE(widened(noise_of(1e-5, 0, 0), open).decides_multiples) << "less than the precision";
  EXPECT_FALSE(widened(noise_of(1e-3, 0, 0, false), open).decides_multiples);
}

TEST(Noise, OfRepetitionsShowsNoFault) {
  const Noise repeated = noise_of(1e-3, 0, 0, false);
  EXPECT_EQ(widened(repeated).whole, limit_of(1e-2));
  const Noise stretched{{{{Compared::gradient, "a"}, {1e-3, 1e-6}}}, false};
  EXPECT_EQ(widened(stretched).multiple, limit_of(1e-2)) << "one may be near 1 by chance";
  EXPECT_EQ(noise_of(1, 1, 1, false).why_unstable(), "");
}

/// A gradient that is 0 up to rounding moves by all of it, and the training is stable.
TEST(Noise, IsUnstableOnceMostGradientsMove) {
  EXPECT_EQ(noise_of(1, 1e-3, 1e-4).why_unstable(), "");
  EXPECT_EQ(noise_of(1, 0.03, 1e-4).why_unstable(), "");
  EXPECT_THAT(noise_of(1, 0.04, 1e-4).why_unstable(), HasSubstr("0.04 of their norm apart"));
  EXPECT_EQ(Noise{}.why_unstable(), "");
}

TEST(Noise, WithTheSameBitsMovesNothing) {
  EXPECT_FALSE(Noise{}.moves());
  Noise still = noise_of(0, 0, 0);
  still.distances.erase({Compared::update, "a"});
  EXPECT_FALSE(still.moves());
  EXPECT_TRUE(noise_of(0, 0, 1e-9).moves());
}

}  // namespace
}  // namespace lockstep
