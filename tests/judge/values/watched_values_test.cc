// Values of a watched job that need more than bits: they become infinite, are reduced inside the
// optimizer's step, or differ as those of replicas that each rank computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/values/own_tensors.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

const LiteralEvidence::Tensor kBefore{Kind::parameter, Phase::pre_forward, 0};
const LiteralEvidence::Tensor kAfter{Kind::parameter, Phase::post_step, 0};
const Claim kFinite = stay_finite(Kind::parameter, Phase::post_step);
const Claim kParametersAgree = agree_across_ranks(Kind::parameter, Phase::post_step);
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

ClaimResult judge_job(const Claim& claim, const LiteralEvidence& files, int ranks,
                      const std::vector<Traffic>& in_steps = {},
                      const std::vector<Traffic>& all = {}) {
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = ranks;
  cell.steps = std::nullopt;
  cell.is_job = true;
  cell.claims = {claim};
  cell.evidence = &evidence;
  cell.traffic = all;
  cell.traffic_in_steps = in_steps;
  return judge(cell).front();
}

/// Two ranks that hold a mask and a weight, which all ranks reduce in two steps.
void observe_weights(const std::vector<float>& gradient, const std::vector<float>& weight,
                     LiteralEvidence& files) {
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "mask", {-kInfinite, 0}, kBefore);
    files.add(rank, 1, "w", {1, 1}, kBefore);
    files.add(rank, 1, "w", {1, 1});
    files.add(rank, 1, "mask", {-kInfinite, 0}, kAfter);
    files.add(rank, 1, "w", {2, 2}, kAfter);
    files.add(rank, 2, "w", gradient);
    files.add(rank, 2, "mask", {-kInfinite, 0}, kAfter);
    files.add(rank, 2, "w", weight, kAfter);
  }
}

TEST(Finiteness, IsLostWhereAParameterIsNotFiniteAfterAStepThoughRanksAgree) {
  LiteralEvidence files(2);
  observe_weights({kNotANumber, 1}, {kNotANumber, 3}, files);
  const ClaimResult result = judge_job(kFinite, files, 2);
  ASSERT_EQ(result.verdict, Verdict::violated);
  const Finding& found = result.findings[0];
  EXPECT_EQ(found.kind, FindingKind::became_not_finite);
  EXPECT_EQ(found.step, 2);
  EXPECT_THAT(found.tensors, ElementsAre("w"));
  EXPECT_THAT(found.groups, ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(found.sentence, StartsWith("parameters became not finite in step 2: w on ranks 0,1 "
                                         "(1 of 2 elements). First in that step: the gradient"));
  ASSERT_TRUE(found.birth);
  EXPECT_EQ(found.birth->kind, Kind::gradient);
  EXPECT_THAT(found.birth->ranks, ElementsAre(0, 1));
}

TEST(Finiteness, IsKeptByMasksAndIfOnlyGradientsAreNotFinite) {
  LiteralEvidence files(2);
  observe_weights({kNotANumber, kInfinite}, {2, 2}, files);
  const ClaimResult result = judge_job(kFinite, files, 2);
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 8);  // two tensors after two steps on two ranks
}

TEST(Finiteness, IsLostByAMaskThatGetsMoreOfIt) {
  LiteralEvidence files(1);
  files.add(0, 1, "mask", {-kInfinite, 0}, kBefore);
  files.add(0, 1, "mask", {-kInfinite, kNotANumber}, kAfter);
  EXPECT_EQ(judge_job(kFinite, files, 1).verdict, Verdict::violated);
}

TEST(Finiteness, IsBornOnTheRankThatAloneHasIt) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "mask", {-kInfinite, 0}, {Kind::module_output, Phase::pre_forward, 0});
    files.add(rank, 1, "w", {1}, kAfter);
    files.add(rank, 2, "mask", {-kInfinite, 0}, {Kind::module_output, Phase::pre_forward, 0});
    files.add(rank, 2, "norm", {rank == 1 ? kNotANumber : 1},
              {Kind::module_output, Phase::pre_forward, 0});
    files.add(rank, 2, "w", {kNotANumber}, kAfter);
  }
  const ClaimResult result = judge_job(kFinite, files, 2);
  ASSERT_EQ(result.verdict, Verdict::violated);
  ASSERT_TRUE(result.findings[0].birth);
  EXPECT_EQ(result.findings[0].birth->tensor, "norm");
  EXPECT_THAT(result.findings[0].birth->ranks, ElementsAre(1));
  EXPECT_THAT(result.findings[0].birth->finite_ranks, ElementsAre(0));
}

/// A job whose gradients differ in steps 1 to 3, and whose parameter `name` becomes
/// `values[step - 1]` on all ranks, on rank 1 with `apart` added.
void observe_reduced(const std::string& name, const std::vector<float>& values,
                     LiteralEvidence& files, int ranks = 2, float apart = 0) {
  for (int rank = 0; rank < ranks; ++rank) {
    files.add(rank, 1, name, {0}, kBefore);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto step = static_cast<std::int64_t>(i) + 1;
      files.add(rank, step, name, {static_cast<float>(rank + 1)});
      files.add(rank, step, name, {values[i] + (rank == 1 ? apart : 0)}, kAfter);
    }
  }
}

std::vector<Traffic> calls(std::int64_t count, int group_size = 2,
                           const std::vector<int>& ranks = {0, 1}) {
  return {{ranks, group_size, 1, 3, count}};
}

TEST(GradientsReducedInTheStep, AreNoFindingIfParametersChangeAndAgree) {
  LiteralEvidence files(2);
  observe_reduced("w", {1, 2, 3}, files);
  const ClaimResult result = judge_job(kAgree, files, 2, calls(1));
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.reduced_in_step, 1);
}

TEST(GradientsReducedInTheStep, MayLeaveAParameterAsItIsInSomeSteps) {
  LiteralEvidence files(2);
  observe_reduced("w", {0, 1, 1}, files);  // as a step that a scaler skips
  EXPECT_EQ(judge_job(kAgree, files, 2, calls(1)).verdict, Verdict::holds);
}

/// A learning rate of 0 hides that they are not reduced.
TEST(GradientsReducedInTheStep, AreAFindingIfNoParameterEverChangesUnlessRanksCommunicate) {
  LiteralEvidence silent(2);
  observe_reduced("w", {0, 0, 0}, silent);
  const ClaimResult result = judge_job(kAgree, silent, 2, calls(0));
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].step, 1);
  LiteralEvidence files(2);
  observe_reduced("w", {0, 0, 0}, files);
  const ClaimResult open = judge_job(kAgree, files, 2, calls(1));
  EXPECT_EQ(open.verdict, Verdict::undecided);
  EXPECT_THAT(open.reason, HasSubstr("it never changed"));
}

TEST(GradientsReducedInTheStep, MayBeReducedByCallsThatBeganBefore) {
  LiteralEvidence files(2);
  observe_reduced("w", {1, 2, 3}, files);
  const ClaimResult result = judge_job(kAgree, files, 2, calls(0), calls(1));
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("called before the steps alone"));
  LiteralEvidence apart(2);
  observe_reduced("w", {1, 2, 3}, apart, 2, 0.5F);
  EXPECT_EQ(judge_job(kAgree, apart, 2, calls(0), calls(1)).verdict, Verdict::violated);
}

TEST(GradientsReducedInTheStep, AreAFindingWithoutACollectiveOverTheirRanks) {
  LiteralEvidence none(2);
  observe_reduced("w", {1, 2, 3}, none);
  EXPECT_EQ(judge_job(kAgree, none, 2, calls(0)).verdict, Verdict::violated);
  LiteralEvidence few(4);
  observe_reduced("w", {1, 2, 3}, few, 4);
  EXPECT_EQ(judge_job(kAgree, few, 4, calls(1, 2, {0, 1, 2, 3})).verdict, Verdict::violated);
  LiteralEvidence two_groups(4);
  observe_reduced("w", {1, 2, 3}, two_groups, 4);
  std::vector<Traffic> both = calls(1, 2, {0, 1, 2, 3});
  both.push_back(both[0]);  // within a machine, and between machines
  EXPECT_EQ(judge_job(kAgree, two_groups, 4, both).verdict, Verdict::holds);
  LiteralEvidence one_rank(2);
  observe_reduced("w", {1, 2, 3}, one_rank);
  std::vector<Traffic> of_one = calls(1, 2, {0});
  of_one.push_back({{1}, 2, 1, 3, 0});
  EXPECT_EQ(judge_job(kAgree, one_rank, 2, of_one).verdict, Verdict::violated);
}

/// What later steps do does not mend the step before.
TEST(GradientsReducedInTheStep, AreAFindingIfAnEarlierStepLeftTheParametersApart) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {0}, kBefore);
    for (std::int64_t step = 1; step <= 3; ++step) {
      files.add(rank, step, "w", {static_cast<float>(rank + 1)});
      const bool is_apart = step == 1 && rank == 1;
      files.add(rank, step, "w", {static_cast<float>(step) + (is_apart ? 0.5F : 0.0F)}, kAfter);
    }
  }
  EXPECT_EQ(judge_job(kAgree, files, 2, calls(1)).verdict, Verdict::violated);
}

TEST(GradientsReducedInTheStep, AreAFindingIfAnEarlierStepHadNoCollective) {
  LiteralEvidence files(2);
  observe_reduced("w", {1, 2, 3}, files);
  const std::vector<Traffic> later{{{0, 1}, 2, 1, 1, 0}, {{0, 1}, 2, 2, 3, 1}};
  EXPECT_EQ(judge_job(kAgree, files, 2, later).verdict, Verdict::violated);
}

TEST(GradientsReducedInTheStep, AreAFindingIfOneRankIsKnownToHaveCalledNone) {
  LiteralEvidence files(2);
  observe_reduced("w", {1, 2, 3}, files);
  EXPECT_EQ(judge_job(kAgree, files, 2, {{{0}, 2, 1, 3, 0}}).verdict, Verdict::violated);
}

TEST(GradientsReducedInTheStep, AreUndecidedIfCollectivesWereNotCounted) {
  LiteralEvidence files(2);
  observe_reduced("w", {1, 2, 3}, files);
  const ClaimResult result = judge_job(kAgree, files, 2);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("were not counted"));
}

TEST(GradientsReducedInTheStep, LeaveTheOthersAsFindings) {
  LiteralEvidence files(2);
  observe_reduced("a", {1, 2, 3}, files);
  observe_reduced("b", {1, 2, 3}, files, 2, 0.5F);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "equal", {1});
  const ClaimResult result = judge_job(kAgree, files, 2, calls(1));
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].tensor, "b");
  EXPECT_THAT(result.findings[0].tensors, ElementsAre("b"));
  EXPECT_EQ(result.findings[0].step, 1);
  EXPECT_EQ(result.findings[0].last_step, 3);
}

TEST(GradientsReducedInTheStep, LeaveLaterDifferencesToTheParameters) {
  const auto observe = [](LiteralEvidence& files) {
    observe_reduced("w", {1, 2}, files);
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, 3, "w", {static_cast<float>(rank)});
      files.add(rank, 3, "w", {static_cast<float>(rank)}, kAfter);
    }
  };
  LiteralEvidence gradients(2), parameters(2);
  observe(gradients);
  observe(parameters);
  EXPECT_EQ(judge_job(kAgree, gradients, 2, calls(1)).verdict, Verdict::holds);
  const ClaimResult result = judge_job(kParametersAgree, parameters, 2, calls(1));
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].step, 3);
}

/// As a bit that is damaged after the reduction, and too small to move the parameter.
TEST(GradientsReducedInTheStep, AreAFindingIfTheyDifferInAStepThoughCollectivesWereCalledBefore) {
  LiteralEvidence files(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, step, "w", {rank == 1 && step == 2 ? 1.5F : 1.0F});
      files.add(rank, step, "w", {static_cast<float>(step)}, kAfter);
    }
  }
  const ClaimResult result = judge_job(kAgree, files, 2, calls(0), calls(1));
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].step, 2);
}

/// Ranks agree in steps 2 to 4, which are not read again; the parameter has its new value from
/// there.
TEST(GradientsReducedInTheStep, DoNotExplainAChangeOfEarlierSteps) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {0}, kBefore);
    for (std::int64_t step = 1; step <= 5; ++step) {
      const bool is_apart = step == 1 || step == 5;
      files.add(rank, step, "w", {is_apart ? static_cast<float>(rank + 1) : 1.0F});
      files.add(rank, step, "w", {is_apart ? (step == 1 ? 0.0F : 4.0F) : static_cast<float>(step)},
                kAfter);
    }
  }
  const ClaimResult result = judge_job(kAgree, files, 2, {{{0, 1}, 2, 1, 5, 1}});
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("it never changed"));
}

/// Of which each rank holds a summand in the first of three steps, which the optimizer adds up, and
/// what the rank says to be the whole in the later ones: a buffer of momentum that is a summand is
/// added up with it, so the parameters agree.
void observe_summands(float apart, LiteralEvidence& files) {
  observe_reduced("w", {1, 2, 3}, files);
  LiteralEvidence::Tensor gradient;
  for (int rank = 0; rank < 2; ++rank) {
    Observation& summand = files.add(rank, 1, "norm", {static_cast<float>(rank + 1)}, gradient);
    summand.is_summand = true;
    summand.replica_group = "summand " + std::to_string(rank);
    files.add(rank, 1, "norm", {0}, kBefore);
    files.add(rank, 1, "norm", {1}, kAfter);
    for (const std::int64_t step : {2, 3}) {
      files.add(rank, step, "norm", {rank == 1 ? 1 + apart : 1});
      files.add(rank, step, "norm", {static_cast<float>(step)}, kAfter);
    }
  }
}

TEST(GradientsReducedInTheStep, AreAFindingOnceRanksSayThatTheirSummandsAreTheWhole) {
  LiteralEvidence files(2);
  observe_summands(0.5F, files);
  const ClaimResult result = judge_job(kAgree, files, 2, calls(2));
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings[0].tensors, ElementsAre("norm"));
  EXPECT_EQ(result.findings[0].step, 2);
  EXPECT_THAT(result.findings[0].sentence, HasSubstr("In step 1 each rank held a summand of it"));
  LiteralEvidence reduced(2);
  observe_summands(0, reduced);
  const ClaimResult right = judge_job(kAgree, reduced, 2, calls(2));
  EXPECT_EQ(right.verdict, Verdict::holds);
  EXPECT_EQ(right.reduced_in_step, 1);
}

TEST(GradientsReducedInTheStep, AreUndecidedIfTheParameterBeforeIsUnknown) {
  for (const bool do_call : {true, false}) {
    LiteralEvidence files(2);
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, 1, "w", {static_cast<float>(rank)});
      files.add(rank, 1, "w", {1}, kAfter);
    }
    const ClaimResult result = judge_job(kAgree, files, 2, calls(do_call ? 1 : 0));
    EXPECT_EQ(result.verdict, do_call ? Verdict::undecided : Verdict::violated);
    const std::string why = do_call ? "not observed before the first of them" : "";
    EXPECT_THAT(result.reason, HasSubstr(why));
  }
}

/// One step does not show that the reduction is in it, if all that is known are earlier calls.
TEST(GradientsReducedInTheStep, AreAFindingInASingleStepThoughCollectivesWereCalledBefore) {
  LiteralEvidence files(2);
  observe_reduced("w", {1}, files);
  EXPECT_EQ(judge_job(kAgree, files, 2, calls(0), calls(1)).verdict, Verdict::violated);
}

/// 40 numbers of about `size`, apart by `ulps` units in the last place on alternating sides.
std::vector<float> numbers(float size, int ulps) {
  std::vector<float> values(40, size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (int n = 0; n < ulps; ++n) {
      values[i] = std::nextafter(values[i], i % 2 == 0 ? 2 * size : 0.0F);
    }
  }
  return values;
}

/// Step 1 of ranks that compute replicas: of gradients "m.a" and "m.b", and "m.small" of `size`,
/// which on rank 1 is `factor` times as large in every second element.
void observe_replicas(float size, float factor, LiteralEvidence& files) {
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "m.a", numbers(1, rank));
    files.add(rank, 1, "m.b", numbers(2, rank));
    std::vector<float> small(40, size);
    for (std::size_t i = 0; rank == 1 && i < small.size(); i += 2) small[i] *= factor;
    for (std::size_t i = 1; rank == 1 && i < small.size(); i += 2) small[i] /= factor;
    files.add(rank, 1, "m.small", small);
  }
}

TEST(Replicas, HideNoTensorThatIsFurtherApartThanRounding) {
  LiteralEvidence files(2);
  observe_replicas(1e-3F, 1.5F, files);
  const ClaimResult result = judge_job(kAgree, files, 2);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].tensor, "m.small");
  EXPECT_THAT(result.findings[0].tensors, ElementsAre("m.small"));
}

TEST(Replicas, AgreeUpToRounding) {
  LiteralEvidence files(2);
  observe_replicas(1e-3F, 1 + 1e-7F, files);
  const ClaimResult result = judge_job(kAgree, files, 2);
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_TRUE(result.tolerance);
}

/// They gather gradients after the backward pass, and each adds them up in another order.
TEST(Replicas, AgreeUpToRoundingThoughTheirParametersAgreeAndCallsBeganBefore) {
  LiteralEvidence files(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const char* name : {"m.a", "m.b", "m.c"}) {
        if (step == 1) files.add(rank, 1, name, {0}, kBefore);
        files.add(rank, step, name, numbers(1, rank));
        files.add(rank, step, name, {static_cast<float>(step)}, kAfter);
      }
    }
  }
  const ClaimResult result = judge_job(kAgree, files, 2, calls(0), calls(1));
  EXPECT_EQ(result.verdict, Verdict::holds) << result.reason;
  EXPECT_EQ(result.reduced_in_step, 0);
}

/// Replicas differ in most tensors from the first step on. A damaged bit may be as small.
TEST(Replicas, AreNoneIfFewTensorsDiffer) {
  const auto verdict = [](int differing, int tensors) {
    LiteralEvidence files(2);
    for (int i = 0; i < tensors; ++i) {
      for (int rank = 0; rank < 2; ++rank) {
        files.add(rank, 1, "m." + std::to_string(i), numbers(1, i < differing ? rank : 0));
      }
    }
    return judge_job(kAgree, files, 2).verdict;
  };
  EXPECT_EQ(verdict(1, 1), Verdict::violated);
  EXPECT_EQ(verdict(2, 5), Verdict::violated);
  EXPECT_EQ(verdict(2, 4), Verdict::holds);
}

/// Another learning rate by a millionth is no rounding, however small.
TEST(Replicas, AreAFindingIfAllTensorsDifferInOneDirection) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* name : {"a", "b", "c"}) {
      files.add(rank, 1, name, std::vector<float>(40, rank == 0 ? 1.0F : 1.0F + 1e-6F));
    }
  }
  EXPECT_EQ(judge_job(kAgree, files, 2).verdict, Verdict::violated);
}

TEST(Replicas, AreAFindingIfATensorIsNotFinite) {
  LiteralEvidence files(2);
  observe_replicas(1e-3F, 1 + 1e-7F, files);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<float> values = numbers(1, rank);
    values[3] = std::numeric_limits<float>::infinity();
    files.add(rank, 1, "m.infinite", values);
  }
  const ClaimResult result = judge_job(kAgree, files, 2);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].tensor, "m.infinite");
}

/// A gradient that shrinks keeps the roundings of its larger summands.
TEST(Replicas, AreJudgedByTheLargestNormOfATensorSoFar) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* name : {"m.a", "m.b"}) {
      files.add(rank, 1, name, numbers(1, rank));
      std::vector<float> small(40);
      for (std::size_t i = 0; i < small.size(); ++i) {
        small[i] = 1e-3F + (rank == 1 ? (i % 2 == 0 ? 1e-7F : -1e-7F) : 0.0F);
      }
      files.add(rank, 2, name, small);
    }
  }
  EXPECT_EQ(judge_job(kAgree, files, 2).verdict, Verdict::holds);
}

TEST(Replicas, AreUndecidedAboutATensorBelowTheRoundingOfItsModule) {
  LiteralEvidence files(2);
  observe_replicas(1e-8F, 1.5F, files);
  const ClaimResult result = judge_job(kAgree, files, 2);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, StartsWith("m.small differs by 0.37 of its norm"));
}

TEST(Replicas, AreKnownByTheirGradientsThoughOneParameterDiffersFirst) {
  for (const bool have_gradients : {true, false}) {
    LiteralEvidence files(2);
    for (int rank = 0; rank < 2; ++rank) {
      for (const char* name : {"a", "b", "c"}) {
        if (have_gradients) files.add(rank, 1, name, numbers(1, rank));
        const bool is_moved = rank == 1 && name[0] == 'b';
        files.add(rank, 1, name, numbers(1, is_moved ? 1 : 0), kAfter);
      }
    }
    // Alone it may be a damaged bit.
    EXPECT_EQ(judge_job(kParametersAgree, files, 2).verdict,
              have_gradients ? Verdict::holds : Verdict::violated);
  }
}

/// A moment of the optimizer carries the rounding of step 1 into step 2.
TEST(Replicas, MayDifferWhereTheirGradientsAgreeIfThoseDifferedBefore) {
  for (const bool have_differed : {true, false}) {
    LiteralEvidence files(2);
    for (int rank = 0; rank < 2; ++rank) {
      for (const char* name : {"a", "b", "c"}) {
        files.add(rank, 1, name, numbers(1, have_differed ? rank : 0));
        files.add(rank, 1, name, numbers(1, 0), kAfter);
        files.add(rank, 2, name, numbers(1, 0));
        files.add(rank, 2, name, numbers(2, rank), kAfter);
      }
    }
    const ClaimResult result = judge_job(kParametersAgree, files, 2);
    EXPECT_EQ(result.verdict, have_differed ? Verdict::holds : Verdict::violated);
    if (have_differed) continue;
    EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("the gradients had the same bits"));
  }
}

TEST(UnevenSteps, AreThoseOfTheFirstStepAlone) {
  LiteralEvidence files(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const std::string name : {"a", "b", "c"}) {
        const bool is_left_out =
            rank == 1 && ((step == 1 && name == "b") || (step == 2 && name == "c"));
        if (!is_left_out) files.add(rank, step, name, {static_cast<float>(step)}, kAfter);
      }
    }
  }
  EXPECT_EQ(judge_job(kParametersAgree, files, 2).reason,
            "rank 1 did not step b in step 1, which rank 0 did");
}

TEST(UnevenSteps, AreNoneOfARankThatHasEnded) {
  LiteralEvidence files(2);
  for (std::int64_t step = 1; step <= 2; ++step) {
    files.add(0, step, "a", {static_cast<float>(step)}, kAfter);
    if (step == 1) files.add(1, step, "a", {static_cast<float>(step)}, kAfter);
  }
  EXPECT_THAT(judge_job(kParametersAgree, files, 2).reason, Not(HasSubstr("did not step")));
}

TEST(UnevenSteps, AreToldOfAParameterThatARankHoldsAndNeverSteps) {
  for (const bool is_held : {true, false}) {
    LiteralEvidence files(2);
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, 1, "a", {0}, kBefore);
      if (rank == 0 || is_held) files.add(rank, 1, "b", {0}, kBefore);
      files.add(rank, 1, "a", {1}, kAfter);
      if (rank == 0) files.add(rank, 1, "b", {1}, kAfter);
    }
    const ClaimResult result = judge_job(kParametersAgree, files, 2);
    EXPECT_EQ(result.verdict, Verdict::undecided);
    // Else `b` may be of another stage of a pipeline.
    EXPECT_EQ(result.reason == "rank 1 did not step b in step 1, which rank 0 did", is_held)
        << result.reason;
  }
}

TEST(UnevenSteps, AreToldBeforeTheirConsequence) {
  LiteralEvidence files(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, step, "a", {static_cast<float>(step)}, kAfter);
      if (rank == 1 && step == 1) continue;
      files.add(rank, step, "b", {static_cast<float>(step + rank)}, kAfter);
    }
  }
  const ClaimResult result = judge_job(kParametersAgree, files, 2);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].step, 2);
  EXPECT_THAT(result.findings[0].sentence,
              HasSubstr("Before that, rank 1 did not step b in step 1, which rank 0 did."));
}

/// Ranks 0 and 1 train four steps. The data of rank 2 ends after two, and after the last one it has
/// the weights of the others, unless that was not observed. Rank 1 has other values in step
/// `apart`; 0: in none.
ClaimResult judge_joined(const Claim& claim, std::int64_t apart,
                         const std::vector<JoinedRanks>& joined, bool is_observed_again = true) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) {
    for (std::int64_t step = 1; step <= (rank < 2 ? 4 : 2); ++step) {
      const float other = rank == 1 && step == apart ? 1 : 0;
      files.add(rank, step, "w", {1 + other});
      files.add(rank, step, "w", {static_cast<float>(step) + other}, kAfter);
      if (step % 2 == 1) files.add(rank, step, "v", {1}, kAfter);
    }
  }
  if (is_observed_again) {
    files.add(2, 4, "w", {4}, kAfter);
    files.add(2, 4, "v", {1}, kAfter);  // of an optimizer that steps now and then
  }
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = 3;
  for (int rank = 0; rank < 3; ++rank) {
    RankExit& end = cell.exits.emplace_back();
    end.rank = rank;
    end.kind = ExitKind::finished;
    end.step = evidence.last_step(rank);
  }
  cell.steps = std::nullopt;
  cell.is_job = true;
  cell.claims = {claim};
  cell.evidence = &evidence;
  cell.joined = joined;
  return judge(cell).front();
}

TEST(JoinedRanks, NeedNotHaveTheStepsThatTheyDoNotTrain) {
  const std::vector<JoinedRanks> joined{{{2}, 2, 4}};
  for (const Claim& claim : {kAgree, kParametersAgree}) {
    EXPECT_EQ(judge_joined(claim, 0, joined).verdict, Verdict::holds);
    EXPECT_EQ(judge_joined(claim, 0, {{{2}, 2, 0}}).verdict, Verdict::holds) << "until the end";
    EXPECT_EQ(judge_joined(claim, 0, {}).reason, "w in step 3 was not observed on rank 2");
    EXPECT_EQ(judge_joined(claim, 0, {{{1}, 2, 4}}).verdict, Verdict::undecided) << "another rank";
    EXPECT_EQ(judge_joined(claim, 0, {{{2}, 3, 4}}).verdict, Verdict::undecided) << "other steps";
  }
}

TEST(JoinedRanks, MayBeSeenLastBeforeTheOthers) {
  EXPECT_EQ(judge_joined(kAgree, 0, {{{2}, 2, 4}}, false).verdict, Verdict::holds);
  EXPECT_EQ(judge_joined(kAgree, 0, {{{2}, 2, 0}}, false).verdict, Verdict::holds);
  EXPECT_EQ(judge_joined(kAgree, 0, {{{2}, 1, 2}}, false).verdict, Verdict::undecided)
      << "it had trained again";
}

TEST(JoinedRanks, DoNotHideThatOthersDiffer) {
  const ClaimResult result = judge_joined(kAgree, 3, {{{2}, 2, 4}});
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].step, 3);
  EXPECT_THAT(result.findings[0].groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
}

/// Two ranks with a weight, and with tensors of these names each.
std::set<std::string> own_of(const std::vector<std::string>& first,
                             const std::vector<std::string>& second, std::size_t size = 1) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {1}, kAfter);
    for (const std::string& name : rank == 0 ? first : second) {
      files.add(rank, 1, name, std::vector<float>(rank == 0 ? 1 : size), kAfter);
    }
  }
  return own_tensors(files.write());
}

TEST(OwnTensors, AreAlikeOnAllRanksButForNumbersInTheirNames) {
  EXPECT_THAT(own_of({"experts.0.w"}, {"experts.1.w"}), ElementsAre("experts.0.w", "experts.1.w"));
  EXPECT_THAT(own_of({"e.0.a", "e.1.a"}, {"e.2.a", "e.13.a"}), SizeIs(4));
  EXPECT_THAT(own_of({"experts.0.w"}, {}), IsEmpty()) << "it may lack on the other rank";
  EXPECT_THAT(own_of({"e.0.a", "e.1.a"}, {"e.2.a"}), IsEmpty());
  EXPECT_THAT(own_of({"experts.0.w"}, {"experts.1.w"}, 2), IsEmpty()) << "of another shape";
  EXPECT_THAT(own_of({"experts.0.w"}, {"adapters.1.w"}), IsEmpty());
  EXPECT_THAT(own_of({"optimizer0.group0.0"}, {"optimizer1.group0.0"}), IsEmpty())
      << "the hook made these names up";
}

TEST(OwnTensors, AreNamedWhereOneRankAloneHasThem) {
  EXPECT_EQ(lone_in_words({"experts.0.b", "experts.0.w"}),
            "experts.0.b and 1 more are each on one rank alone: if that is meant to be, --ignore "
            "'^experts\\.' leaves them out");
  EXPECT_EQ(lone_in_words({"probe.w"}),
            "probe.w is on one rank alone: if that is meant to be, --ignore '^probe\\.w' leaves it "
            "out");
  EXPECT_EQ(lone_in_words({"a", "b"}),
            "a and 1 more are each on one rank alone: if that is meant to be, --ignore leaves them "
            "out");
}

}  // namespace
}  // namespace lockstep
