#include "reports/record/finding_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/reports/formats/literal_jobs.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

constexpr const char* kOfGradients =
    "gradients-differ | train.py | agree_across_ranks gradient pre_step | ";

TEST(FindingKey, NamesKindLabelClaimAndEveryTensorOfTheFirstStep) {
  EXPECT_THAT(
      keys_of("train.py", literal_divergence()),
      ElementsAre(std::string(kOfGradients) + "weight", std::string(kOfGradients) + "bias"));
}

TEST(FindingKey, IsOneForAllTensorsOrThoseOfAPattern) {
  Finding finding = literal_divergence();
  finding.compared = 2;
  EXPECT_THAT(keys_of("train.py", finding), ElementsAre(std::string(kOfGradients) + "*"));
  finding.compared = 3;
  EXPECT_EQ(keys_of("train.py", finding).size(), 2U);
  finding.pattern = "*.bias";
  EXPECT_THAT(keys_of("train.py", finding), ElementsAre(std::string(kOfGradients) + "*.bias"));
  finding.tensors = {"weight"};
  finding.pattern = "";
  finding.compared = 1;
  EXPECT_THAT(keys_of("train.py", finding), ElementsAre(std::string(kOfGradients) + "weight"));
}

TEST(FindingKey, StaysWhenStepRanksAndValuesChange) {
  Finding other = literal_divergence();
  other.step = 400;
  other.last_step = 900;
  other.groups = {{0}, {1, 2, 3}};
  other.worst_difference = 7;
  other.relative_difference = 0.9;
  other.sentence = "another one";
  EXPECT_EQ(keys_of("train.py", literal_divergence()), keys_of("train.py", other));
}

TEST(FindingKey, DiffersWithKindLabelClaimAndTensor) {
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  const std::string key = key_of(FindingKind::gradients_differ, "a", claim, "w");
  EXPECT_NE(key, key_of(FindingKind::weights_differ, "a", claim, "w"));
  EXPECT_NE(key, key_of(FindingKind::gradients_differ, "b", claim, "w"));
  EXPECT_NE(key, key_of(FindingKind::gradients_differ, "a",
                        agree_across_ranks(Kind::gradient, Phase::post_backward), "w"));
  EXPECT_NE(key, key_of(FindingKind::gradients_differ, "a", claim, "v"));
}

TEST(FindingKey, IsOneLineWhateverANameHolds) {
  const std::string key = key_of(FindingKind::not_finite, "a\nb", ranks_finish(), "w\x1b[31m");
  EXPECT_EQ(key.find_first_of("\n\x1b"), std::string::npos) << key;
}

TEST(FindingKey, OfAFindingAboutRanksHasNoTensor) {
  Finding finding;
  finding.claim = ranks_finish();
  finding.kind = FindingKind::rank_killed;
  EXPECT_THAT(keys_of("train.py", finding), ElementsAre("rank-killed | train.py | ranks_finish"));
}

TEST(FindingKey, IsListedOnceForRepetitionsOfACell) {
  RunRecord run;
  for (const int repetition : {1, 2}) {
    CellRecord cell = literal_cell("ddp", "bypass", Role::buggy, CellVerdict::as_expected);
    cell.cell.repetition = repetition;
    cell.results[0].findings = {literal_divergence()};
    run.cells.push_back(cell);
  }
  const std::string of_cell =
      "gradients-differ | ddp/bypass/w2 | agree_across_ranks gradient pre_step | ";
  EXPECT_THAT(keys_of(run), ElementsAre(of_cell + "weight", of_cell + "bias"));
}

}  // namespace
}  // namespace lockstep
