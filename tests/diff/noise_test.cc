#include "harness/diff/noise.h"

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

TEST(Noise, OfPerturbationsBoundsWhatRoundingDoes) {
  const Noise perturbed = noise_of(1e-3, 0, 0);
  EXPECT_DOUBLE_EQ(perturbed.tolerance_of(Compared::gradient, "a").whole, 3e-3);
  EXPECT_FALSE(perturbed.is_exceeded_by(0.9e-2, 3e-3));
  EXPECT_TRUE(perturbed.is_exceeded_by(1.1e-2, 3e-3));
  EXPECT_EQ(perturbed.tolerance_of(Compared::gradient, "another").whole, 0);
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
  EXPECT_NEAR(noise.tolerance_of(Compared::gradient, "a").multiple, 3e-3, 1e-9);
  EXPECT_DOUBLE_EQ(noise.tolerance_of(Compared::gradient, "a").whole, 0.06);
  one.ratio.reset();  // unknown: it may be all of it
  noise.add(one);
  EXPECT_DOUBLE_EQ(noise.tolerance_of(Compared::gradient, "a").multiple, 0.06);
  noise.is_perturbed = false;
  EXPECT_DOUBLE_EQ(noise.tolerance_of(Compared::gradient, "a").multiple, 0.2);
}

TEST(Noise, OfRepetitionsShowsNoFault) {
  const Noise repeated = noise_of(1e-3, 0, 0, false);
  EXPECT_DOUBLE_EQ(repeated.tolerance_of(Compared::gradient, "a").whole, 1e-2);
  EXPECT_FALSE(repeated.is_exceeded_by(1, 1e-2));
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
