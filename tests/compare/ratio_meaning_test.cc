#include "harness/compare/ratio_meaning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string words_of(double ratio, int world_size, double precision,
                     const std::vector<KnownSize>& sizes = {}) {
  const auto meaning = meaning_of_ratio(ratio, world_size, precision, sizes);
  return meaning ? in_words(meaning->ratio) : "";
}

TEST(RatioInWords, KnowsWholeMultiplesAndTheirParts) {
  EXPECT_THAT(words_of(1.0 / 9, 3, 1e-6), HasSubstr("averaged three times"));
  EXPECT_THAT(words_of(16, 2, 1e-6), HasSubstr("counted 16 times"));
  EXPECT_THAT(words_of(1.0 / 16, 3, 1e-6), HasSubstr("divided by 16"));
  EXPECT_EQ(words_of(17.0 / 16, 16, 1e-6),
            "17/16: one of 16 ranks counted twice, if they are alike");
  EXPECT_EQ(words_of(16.0 / 15, 16, 1e-6), "16/15: divided by 15, where there are 16 ranks");
  EXPECT_EQ(words_of(1.5, 3, 1e-6), "3/2: divided by 2, where there are 3 ranks");
}

TEST(RatioInWords, TellsAllThatItMayComeFrom) {
  EXPECT_EQ(words_of(2, 2, 1e-6), "2: summed over 2 ranks, never averaged, or counted 2 times");
  EXPECT_EQ(words_of(0.25, 4, 1e-6), "1/4: averaged twice over 4 ranks, or divided by 4");
  EXPECT_EQ(words_of(0.25, 2, 1e-6), "1/4: averaged three times, or divided by 4");
}

TEST(RatioInWords, NamesFractionsThatNothingIsKnownOf) {
  EXPECT_EQ(words_of(0.625, 2, 1e-6), "5/8 of the right value");
  EXPECT_EQ(words_of(2.5, 2, 1e-6), "5/2 of the right value");
  EXPECT_EQ(words_of(0.875, 2, 1e-6), "7/8 of the right value");
  EXPECT_EQ(words_of(1.1, 1, 1e-6), "11/10 of the right value");
  EXPECT_EQ(words_of(17.0 / 16, 3, 1e-6), "17/16 of the right value");
  EXPECT_EQ(meaning_of_ratio(1.1, 1, 1e-6)->kind, FindingKind::scaled_by_a_constant);
  EXPECT_EQ(words_of(0.777, 2, 1e-6), "");
  EXPECT_EQ(words_of(0.625, 2, 1e-2), "");
}

TEST(RatioInWords, SaysNothingWhereSeveralRatiosFit) {
  EXPECT_EQ(words_of(1.5, 2, 0.4), "");
  EXPECT_EQ(words_of(1.0 / 12, 8, 0.4), "");
  EXPECT_EQ(words_of(0, 64, 0.4), "0: nothing arrived");
  EXPECT_EQ(words_of(1.0010005, 2, 1e-3), "");
  EXPECT_EQ(words_of(std::nan(""), 2, 1e-6), "");
}

TEST(RatioInWords, KnowsTheSizesOfTheJob) {
  const std::vector<KnownSize> sizes{{4, "micro-batches"}};
  EXPECT_EQ(words_of(4, 2, 1e-6, sizes), "4: summed over the 4 micro-batches, or counted 4 times");
  EXPECT_EQ(words_of(0.25, 3, 1e-6, sizes), "1/4: divided by the 4 micro-batches, or divided by 4");
  EXPECT_EQ(words_of(1.25, 3, 1e-6, sizes),
            "5/4: one of 4 micro-batches counted twice, if they are alike");
  EXPECT_EQ(words_of(2.5, 3, 1e-6, sizes),
            "5/2: of 4 micro-batches, the k-th counted k times, if they are alike");
  EXPECT_EQ(words_of(24, 2, 1e-6, {{24, "micro-batches"}}), "24: summed over the 24 micro-batches");
  EXPECT_EQ(words_of(65536, 2, 1e-6), "65536: scaled by 2^16, as by a loss scale");
  EXPECT_EQ(words_of(1.0 / 1024, 3, 1e-6), "1/1024: divided by 2^10, as by a loss scale");
  EXPECT_EQ(meaning_of_ratio(4, 4, 1e-6, sizes)->kind, FindingKind::scaled_by_world_size);
}

/// A clipping coefficient is the inverse of a norm, whose squares add up.
TEST(RatioInWords, KnowsNormsOfOtherParts) {
  const std::vector<KnownSize> sizes{{2, "ranks of dp"}, {2, "ranks of a copy"}};
  EXPECT_EQ(words_of(std::sqrt(0.5), 4, 1e-6, sizes),
            "1/sqrt(2): as a norm that counts 2 replicas would give (2 ranks of dp)");
  EXPECT_EQ(words_of(std::sqrt(3.0), 3, 1e-6),
            "sqrt(3): as a norm over one of 3 parts would give (3 ranks)");
  EXPECT_EQ(words_of(std::sqrt(5.0), 4, 1e-6, sizes), "");
  EXPECT_THAT(words_of(2, 4, 1e-6, sizes), testing::Not(HasSubstr("norm")));
}

TEST(RatioInWords, SaysNothingOfOne) { EXPECT_EQ(words_of(1, 1, 1e-6), ""); }

TEST(RatioInWords, IsAsPreciseAsTheRatioIsSmall) {
  EXPECT_EQ(words_of(0.5 + 0.9e-3, 2, 1e-3), "");
  EXPECT_NE(words_of(0.5 + 0.4e-3, 2, 1e-3), "");
}

}  // namespace
}  // namespace lockstep
