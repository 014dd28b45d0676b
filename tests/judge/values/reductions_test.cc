// How gradients were reduced, by the contributions of the ranks: wrong sums that are named, and
// right ones, or others that nobody can know, which are not.

#include "harness/judge/values/reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/measure.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

using Values = std::vector<float>;
using OfRanks = std::vector<Values>;

/// The sum of values, each times its weight.
Values sum_of(const OfRanks& values, const std::vector<float>& weights) {
  Values sum(values[0].size());
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weights[rank] * values[rank][i];
  }
  return sum;
}

/// A number of bfloat16.
float coarse(float value) {
  int exponent = 0;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(mantissa * 256) / 256, exponent);
}

/// Of numbers that it has.
std::vector<std::uint16_t> in_bfloat16(const Values& values) {
  std::vector<std::uint16_t> coarse(values.size());
  std::ranges::transform(values, coarse.begin(), [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
  });
  return coarse;
}

/// One step of ranks that contribute to a gradient `w`.
class Step {
 public:
  explicit Step(int ranks, std::size_t components = 200) : ranks_(static_cast<std::size_t>(ranks)) {
    std::mt19937 generator(7);
    std::normal_distribution<float> noise;
    Values common(components);
    for (float& one : common) one = noise(generator);
    for (int rank = 0; rank < ranks; ++rank) {
      Values own = common;
      for (float& one : own) one += noise(generator);
      contributions.push_back(own);
    }
    weights.assign(ranks_.size(), 1.0F / static_cast<float>(ranks));
  }

  Values mean() const { return sum_of(contributions, weights); }
  Values own(std::size_t rank) const { return contributions[rank]; }
  std::size_t ranks() const { return ranks_.size(); }

  /// Of gradients before the step, and of the end of the backward passes, by rank.
  Reduction judged(const OfRanks& gradients, const OfRanks& ended) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!contributions[rank].empty()) {
        add(rank, "w", contributions[rank], {Kind::contribution, Phase::post_backward});
      }
      if (!ended.empty()) add(rank, "w", ended[rank], {Kind::reduction, Phase::post_backward});
      add(rank, "w", gradients[rank], {Kind::gradient, Phase::pre_step});
    }
    const auto found = reductions_in(StepView(1, std::move(ranks_)), unshared);
    const auto w = found.find("w");
    is_judged = w != found.end();
    return is_judged ? w->second : Reduction();
  }

  /// Of ranks that have the same gradient, which the backward passes left as it was.
  Reduction judged(const Values& gradient) {
    return judged(OfRanks(ranks_.size(), gradient), contributions);
  }

  /// Of a gradient that ranks divide, in as many copies as there are values. `summands`: what the
  /// passes of the step contributed, by rank.
  Reduction judged_in_parts(const std::vector<Values>& copies,
                            const std::vector<OfRanks>& summands) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) add_part(rank, copies);
    return judged_summands(summands);
  }

  Reduction judged_summands(const std::vector<OfRanks>& summands) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t i = 0; i < summands.size(); ++i) {
        add(rank, "w", summands[i][rank], {Kind::contribution, Phase::post_backward},
            static_cast<std::int64_t>(i));
        ranks_[rank].observations.back().is_summand = true;
      }
    }
    const auto found = reductions_in(StepView(1, std::move(ranks_)), unshared);
    const auto w = found.find("w");
    is_judged = w != found.end();
    return is_judged ? w->second : Reduction();
  }

  void make_undefined(std::size_t rank) {
    Observation& row = ranks_[rank].observations.back();
    row.dtype = {};
    row.global_shape = row.offset = row.local_shape = {};
    row.not_comparable = "undefined: no gradient";
  }

  /// Ranks of a copy follow each other. The last one of a copy may have nothing.
  void add_part(std::size_t rank, const std::vector<Values>& copies) {
    const std::size_t parts = ranks_.size() / copies.size();
    const Values& whole = copies[rank / parts];
    const std::size_t size = whole.size() / (parts - 1);
    const std::size_t begin = std::min(rank % parts * size, whole.size());
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto length = static_cast<std::ptrdiff_t>(std::min(size, whole.size() - begin));
    add(rank, "w", Values(first, first + length), {Kind::gradient, Phase::pre_step});
    Observation& row = ranks_[rank].observations.back();
    row.global_shape = {static_cast<std::int64_t>(whole.size())};
    row.offset = {static_cast<std::int64_t>(begin)};
    row.replica_group = "part " + std::to_string(rank % parts);
    ranks_[rank].sketches[row.seq] =
        measure_and_sketch(row, std::as_bytes(std::span(first, first + length)));
  }

  struct Kinds {
    Kind kind;
    Phase phase;
  };

  void add(std::size_t rank, const std::string& name, const Values& values, const Kinds& kinds,
           std::int64_t pass = 0) {
    StepView::Rank& own = ranks_[rank];
    Observation row;
    row.kind = kinds.kind;
    row.phase = kinds.phase;
    row.name = name;
    row.dtype = "float32";
    row.global_shape = row.local_shape = {static_cast<std::int64_t>(values.size())};
    row.offset = {0};
    if (is_of_pass(row.kind)) row.replica_group = group_of_one(static_cast<int>(rank));
    row.seq = static_cast<std::int64_t>(own.observations.size());
    row.step = 1;
    row.micro_batch = pass;
    const std::vector<std::uint16_t> coarse = in_bfloat16(values);
    const bool is_coarse = has_coarse_passes && is_of_pass(row.kind);
    if (is_coarse) row.dtype = "bfloat16";
    own.sketches[row.seq] = measure_and_sketch(
        row, is_coarse ? std::as_bytes(std::span(coarse)) : std::as_bytes(std::span(values)));
    own.observations.push_back(row);
  }

  OfRanks contributions;
  bool has_coarse_passes = false;  ///< what the passes leave is bfloat16
  std::vector<float> weights;      ///< of a mean
  std::set<std::string> unshared;
  bool is_judged = false;

 private:
  std::vector<StepView::Rank> ranks_;
};

Values times(Values values, float factor) {
  for (float& one : values) one *= factor;
  return values;
}

Values changed(Values values, const std::function<float(float)>& change) {
  for (float& one : values) one = change(one);
  return values;
}

/// The optimizer has a copy of the parameter, and the gradient of that.
TEST(Reductions, MayBeInACoarserTypeThanTheGradient) {
  Step healthy(4);
  healthy.has_coarse_passes = true;
  for (Values& own : healthy.contributions) own = changed(own, coarse);
  Step faulty = healthy;
  const Reduction found = healthy.judged(times(changed(healthy.mean(), coarse), 1.0F / 1024));
  EXPECT_EQ(found.reduced, Reduced::over_all);
  EXPECT_LT(found.reach, 100U) << "as of its type";
  const Reduction of_one = faulty.judged(times(faulty.own(0), 1.0F / 1024));
  EXPECT_EQ(of_one.reduced, Reduced::over_some);
  EXPECT_THAT(of_one.ranks, ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3)));
}

TEST(Reductions, AreMeansOrSumsOfAllRanksUpToAFactor) {
  for (const float factor : {1.0F, 4.0F, 0.03F, 1.0F / 65536}) {
    Step step(4);
    const Reduction found = step.judged(times(step.mean(), factor));
    EXPECT_EQ(found.reduced, Reduced::over_all) << factor;
    EXPECT_GT(found.reach, 1000U);
  }
}

TEST(Reductions, LackRanks) {
  Step missing(4);
  const Reduction without = missing.judged(sum_of(missing.contributions, {0.25, 0.25, 0, 0.25}));
  EXPECT_EQ(without.reduced, Reduced::over_some);
  EXPECT_THAT(without.ranks, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(2)));
  Step copied(4);
  const Reduction of_first = copied.judged(times(copied.own(0), 0.5));
  EXPECT_EQ(of_first.reduced, Reduced::over_some);
  EXPECT_THAT(of_first.ranks, ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3)));
}

TEST(Reductions, AreDividedTwiceIfTheBackwardPassLeftThemSo) {
  Step step(4);
  const Values quarter = times(step.mean(), 0.25);
  const OfRanks ended(4, quarter);
  const Reduction found = step.judged(OfRanks(4, times(quarter, 3)), ended);
  EXPECT_EQ(found.reduced, Reduced::divided);
  EXPECT_THAT(found.ranks, ElementsAre(ElementsAre(0, 1, 2, 3)));
}

/// Nobody knows whether the gradient was clipped.
TEST(Reductions, AreNotDividedTwiceIfTheyWereDividedAfterThePass) {
  Step step(4);
  const Reduction found =
      step.judged(OfRanks(4, times(step.mean(), 0.25)), OfRanks(4, step.mean()));
  EXPECT_EQ(found.reduced, Reduced::over_all);
}

TEST(Reductions, AreWithinGroups) {
  Step nowhere(3);
  const Reduction own = nowhere.judged(nowhere.contributions, nowhere.contributions);
  EXPECT_EQ(own.reduced, Reduced::within_groups);
  EXPECT_THAT(own.ranks, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  Step halves(4);
  const Values first = sum_of(halves.contributions, {1, 1, 0, 0});
  const Values second = sum_of(halves.contributions, {0, 0, 1, 1});
  const Reduction in_halves = halves.judged({first, first, second, second}, {});
  EXPECT_EQ(in_halves.reduced, Reduced::within_groups);
  EXPECT_THAT(in_halves.ranks, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  Step alone(3);
  const Values others = sum_of(alone.contributions, {0.5, 0.5, 0});
  const Reduction without = alone.judged({others, others, alone.own(2)}, {});
  EXPECT_THAT(without.ranks, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

/// What later passes add to a gradient that was reduced is each rank's own.
TEST(Reductions, AreOfAnEarlierPassAlone) {
  Step step(3);
  OfRanks gradients;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    gradients.push_back(sum_of({step.mean(), step.own(rank)}, {1, 0.5}));
    step.add(rank, "w", step.mean(), {Kind::reduction, Phase::post_backward});
    step.add(rank, "w", gradients[rank], {Kind::contribution, Phase::post_backward}, 1);
    step.add(rank, "w", gradients[rank], {Kind::reduction, Phase::post_backward}, 1);
  }
  const Reduction found = step.judged(gradients, {});
  EXPECT_EQ(found.reduced, Reduced::early_pass);
  EXPECT_EQ(found.pass, 1);
}

TEST(Reductions, WereChangedAfterwards) {
  Step step(3);
  const Values mean = step.mean();
  const Values masked = changed(mean, [](float one) { return one > 0 ? one : 0; });
  const Reduction found = step.judged({mean, masked, mean}, OfRanks(3, mean));
  EXPECT_EQ(found.reduced, Reduced::changed_after);
  EXPECT_THAT(found.ranks, ElementsAre(ElementsAre(1)));
  Step scaled(3);
  const Reduction twice = scaled.judged({mean, mean, times(mean, 2)}, OfRanks(3, mean));
  EXPECT_THAT(twice.ranks, ElementsAre(ElementsAre(2)));
  Step both(2);
  const Values other = both.mean();
  const Reduction one = both.judged({times(other, 2), other}, OfRanks(2, other));
  EXPECT_THAT(one.ranks, ElementsAre(ElementsAre(0))) << "the other one is that of the pass";
  Step unscaled(2);
  const Values end = unscaled.mean();
  const Reduction all = unscaled.judged({times(end, 0.5F), times(end, 0.25F)}, OfRanks(2, end));
  EXPECT_THAT(all.ranks, ElementsAre(ElementsAre(0, 1)));
}

TEST(Reductions, AreUnknownIfTheyWereChangedInAnotherWay) {
  const std::vector<std::function<float(float)>> changes{
      [](float one) { return std::max(-0.1F, std::min(one, 0.1F)); },
      [](float one) { return one > 0 ? one : 0; }, [](float one) { return one > 0 ? 1.0F : -1.0F; },
      [](float one) { return one + 0.1F; }, [](float one) { return -one; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Step step(4);
    EXPECT_EQ(step.judged(changed(step.mean(), changes[i])).reduced, Reduced::unknown) << i;
    EXPECT_TRUE(step.is_judged);
  }
  Step weighted(4);
  EXPECT_EQ(weighted.judged(sum_of(weighted.contributions, {0.1F, 0.2F, 0.3F, 0.4F})).reduced,
            Reduced::unknown);
}

/// The values at the end of the pass are known.
TEST(Reductions, AreKnownThoughTheyWereChangedOnAllRanksAfterThePass) {
  Step step(4);
  const Values clipped = changed(step.mean(), [](float one) { return std::min(one, 0.1F); });
  EXPECT_EQ(step.judged(OfRanks(4, clipped), OfRanks(4, step.mean())).reduced, Reduced::over_all);
}

TEST(Reductions, MayBeCompressed) {
  Step compressed(4);
  Values sum(compressed.own(0).size());
  for (const Values& own : compressed.contributions) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = coarse(sum[i] + coarse(own[i] / 4));
  }
  const Reduction found = compressed.judged(sum);
  EXPECT_EQ(found.reduced, Reduced::over_all);
  EXPECT_LT(found.reach, 100U) << "a coarse sum hides a rank among many";
  EXPECT_GE(found.reach, 4U);
  Step missing(4);
  const Values rest = changed(sum_of(missing.contributions, {0.25, 0.25, 0.25, 0}), coarse);
  EXPECT_EQ(missing.judged(rest).reduced, Reduced::over_some);
}

TEST(Reductions, AreRightIfRanksContributeTheSameOrNothing) {
  Step same(3);
  same.contributions = OfRanks(3, same.own(0));
  EXPECT_EQ(same.judged(same.own(0)).reduced, Reduced::over_all);
  Step zero(3);
  zero.contributions[1] = Values(200, 0);
  EXPECT_EQ(zero.judged(zero.mean()).reduced, Reduced::over_all);
}

/// They compute the same up to rounding, and one of them may stand for all.
TEST(Reductions, OfReplicasMayBeOneOfThem) {
  Step replicas(3);
  for (std::size_t rank = 1; rank < 3; ++rank) {
    replicas.contributions[rank] = sum_of({replicas.own(0), replicas.own(rank)}, {1, 1e-4F});
  }
  EXPECT_EQ(replicas.judged(replicas.own(1)).reduced, Reduced::over_all);
}

/// A rank whose samples do not use the parameter contributed to others alone.
TEST(Reductions, CountARankWithoutAGradientAsZero) {
  Step step(3);
  const Values mean = step.mean();
  const Values used = sum_of(step.contributions, {1, 1, 0});
  step.add(2, "other", mean, {Kind::contribution, Phase::post_backward});
  step.contributions[2].clear();
  EXPECT_EQ(step.judged(OfRanks(3, used), {}).reduced, Reduced::over_all);
  Step silent(3);
  silent.contributions[2].clear();
  silent.judged(OfRanks(3, used), {});
  EXPECT_FALSE(silent.is_judged) << "rank 2 was not observed";
}

TEST(Reductions, FollowFromTheLastPass) {
  Step step(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Values later = times(step.own(1 - rank), 3);
    step.add(rank, "w", later, {Kind::contribution, Phase::post_backward}, 1);
  }
  const Values mean = sum_of(step.contributions, {1.5, 1.5});
  EXPECT_EQ(step.judged(OfRanks(2, mean), {}).reduced, Reduced::over_all);
}

TEST(Reductions, AreNotJudgedWithoutEvidence) {
  const float infinite = std::numeric_limits<float>::infinity();
  Step overflow(2);
  overflow.contributions[1][3] = infinite;
  overflow.judged(overflow.mean());
  EXPECT_FALSE(overflow.is_judged) << "not finite";
  Step nothing(2);
  nothing.contributions = OfRanks(2, Values(200, 0));
  nothing.judged(nothing.mean());
  EXPECT_FALSE(nothing.is_judged) << "zero";
  Step number(2, 1);
  number.judged(number.own(0));
  EXPECT_FALSE(number.is_judged) << "a number is a multiple of any other";
  Step unshared(2);
  unshared.unshared = {"w"};
  unshared.judged(unshared.contributions, {});
  EXPECT_FALSE(unshared.is_judged) << "each rank has a parameter of its own";
  Step cancelling(2);
  cancelling.contributions[1] =
      changed(cancelling.own(0), [](float one) { return -one * (1 - 1e-7F); });
  cancelling.judged(cancelling.own(0));
  EXPECT_FALSE(cancelling.is_judged) << "rounding is as large as the mean";
}

/// Two components may be a multiple of any two others up to the rounding of 16 bits.
TEST(Reductions, OfFewComponentsAreNoCopyByChance) {
  Step step(4, 2);
  const Values near = times(step.own(1), 0.3F);
  EXPECT_EQ(step.judged({near[0], near[1] * 1.001F}).reduced, Reduced::unknown);
}

/// Parts are put together, and what passes contributed is added up.
TEST(DividedReductions, AreOfAllRanksAndPasses) {
  Step once(3);
  EXPECT_EQ(once.judged_in_parts({once.mean()}, {once.contributions}).reduced, Reduced::over_all);
  Step twice(3);
  Step more(3);
  for (Values& own : more.contributions) own = times(own, -0.3F);
  std::rotate(more.contributions[0].begin(), more.contributions[0].begin() + 5,
              more.contributions[0].end());
  const Values sum = sum_of({twice.mean(), more.mean()}, {1, 1});
  EXPECT_EQ(twice.judged_in_parts({sum}, {twice.contributions, more.contributions}).reduced,
            Reduced::over_all);
  Step early(3);
  EXPECT_EQ(
      early.judged_in_parts({early.mean()}, {early.contributions, more.contributions}).reduced,
      Reduced::early_sum);
  Step late(3);
  EXPECT_EQ(late.judged_in_parts({more.mean()}, {late.contributions, more.contributions}).reduced,
            Reduced::unknown)
      << "the first may have been cleared";
}

TEST(DividedReductions, LackARank) {
  Step step(4);
  const Values others = sum_of(step.contributions, {1, 1, 0, 1});
  const Reduction found = step.judged_in_parts({others}, {step.contributions});
  EXPECT_EQ(found.reduced, Reduced::over_some);
  EXPECT_THAT(found.ranks, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(2)));
}

/// Copies of ranks 0 and 1, and of 2 and 3.
TEST(DividedReductions, AreWithinACopy) {
  Step right(4);
  EXPECT_EQ(right.judged_in_parts({right.mean(), right.mean()}, {right.contributions}).reduced,
            Reduced::over_all);
  Step step(4);
  const Values first = sum_of(step.contributions, {0.5, 0.5, 0, 0});
  const Values second = sum_of(step.contributions, {0, 0, 0.5, 0.5});
  const Reduction found = step.judged_in_parts({first, second}, {step.contributions});
  EXPECT_EQ(found.reduced, Reduced::within_groups);
  EXPECT_THAT(found.ranks, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

/// Gradients that are nowhere; and one that the training has cleared, which the end of the pass
/// shows.
TEST(DividedReductions, ArriveNowhere) {
  for (const bool was_cleared : {false, true}) {
    Step step(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      step.add(rank, "w", {}, {Kind::gradient, Phase::pre_step});
      step.make_undefined(rank);
      if (was_cleared) step.add(rank, "w", step.mean(), {Kind::reduction, Phase::post_backward});
    }
    EXPECT_EQ(step.judged_summands({step.contributions}).reduced,
              was_cleared ? Reduced::unknown : Reduced::nowhere);
  }
}

}  // namespace
}  // namespace lockstep
