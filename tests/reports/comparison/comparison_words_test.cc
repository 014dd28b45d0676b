#include "reports/comparison/comparison_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "reports/base/plain_text.h"
#include "reports/formats/renderer.h"
#include "reports/record/json.h"
#include "tests/reports/comparison/literal_comparisons.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

RunRecord run_of(const ComparedPair& diff) {
  Comparison comparison;
  comparison.pairs = {diff};
  return run_with(comparison);
}

nlohmann::json json_of(const ComparedPair& diff) {
  return nlohmann::json::parse(render_json(run_of(diff)))["comparisons"][0]["pairs"][0];
}

std::string page_of(const ComparedPair& diff) { return render_html(run_of(diff)); }

TensorDifference tensor_that_is(Likeness likeness, const std::string& name = "w") {
  TensorDifference tensor;
  tensor.name = name;
  tensor.likeness = likeness;
  tensor.relative = likeness == Likeness::equal ? 0 : 0.5;
  tensor.tolerance = 1e-5;
  return tensor;
}

/// Two steps: the first is equal, the second has `likeness`.
ComparedPair diff_with(Likeness likeness) {
  ComparedPair diff;
  diff.matched = 1;
  diff.preconditions = {{Prerequisite::initial_weights, Likeness::equal, "equal"},
                        {Prerequisite::samples, Likeness::equal, "the same"}};
  diff.steps = {{1, 1, 0, "", {tensor_that_is(Likeness::equal)}},
                {2, 2, 0, "", {tensor_that_is(likeness)}}};
  return diff;
}

TEST(ComparedPair, TellsMemoryThatIsFarApart) {
  ComparedPair diff = diff_with(Likeness::equal);
  const auto says = [&] {
    std::string all;
    for (const std::string& line : lines_of(diff)) all += line + "\n";
    return all;
  };
  EXPECT_THAT(says(), Not(HasSubstr("memory")));
  diff.sides[0].peak_bytes = 400 << 20;
  EXPECT_THAT(says(), Not(HasSubstr("memory"))) << "unknown in B";
  diff.sides[1].peak_bytes = 380 << 20;
  diff.sides[0].peak_device_bytes = 100 << 20;
  diff.sides[1].peak_device_bytes = 62 << 20;
  EXPECT_THAT(says(), Not(HasSubstr("memory: ")));
  EXPECT_THAT(says(),
              HasSubstr("\nmemory of GPUs: 0.62 of A's: at most 62 MiB a rank, 100 MiB in A\n"));
  diff.sides[1].peak_bytes = 800 << 20;
  EXPECT_THAT(says(), HasSubstr("\nmemory: 2.00 of A's: at most 800 MiB a rank, 400 MiB in A\n"));
  diff.sides[0].duration_s = diff.sides[1].duration_s = 1;
  EXPECT_THAT(says(), HasSubstr(", 1.0 s, at most 400 MiB a rank and 100 MiB of a device ("));
  EXPECT_THAT(says(), Not(HasSubstr("of A's"))) << "the sides have said it";
}

TEST(ComparedPair, HoldsIfEveryStepIsDecided) {
  EXPECT_EQ(verdict_of(diff_with(Likeness::equal)), Verdict::holds);
  EXPECT_EQ(verdict_of(diff_with(Likeness::rounding)), Verdict::holds);
  EXPECT_EQ(verdict_of(diff_with(Likeness::undecided)), Verdict::undecided);
  EXPECT_EQ(verdict_of(diff_with(Likeness::different)), Verdict::violated);
  ComparedPair open = diff_with(Likeness::equal);
  open.steps[1].undecidable = "too far apart";
  EXPECT_EQ(verdict_of(open), Verdict::undecided);
  EXPECT_THAT(verdict_in_words(open), HasSubstr("equal up to rounding up to step 1"));
  EXPECT_EQ(verdict_of(ComparedPair{}), Verdict::undecided);
}

TEST(ComparedPair, NamesTensorsThatCarryNoEvidenceAndLetsThemDecideNothing) {
  ComparedPair diff = diff_with(Likeness::rounding);
  diff.matched = 148;
  diff.steps[1].tensors.push_back(tensor_that_is(Likeness::no_evidence, "attn.k.bias"));
  diff.without_evidence = {"attn.k.bias"};
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  EXPECT_THAT(text_of(diff),
              HasSubstr("1 of 148 parameters carry no evidence, because "
                        "their gradients are 0 up to rounding, or elements of them: attn.k"));
  const auto json = json_of(diff);
  EXPECT_EQ(json["without_evidence"][0], "attn.k.bias");
  EXPECT_THAT(page_of(diff), HasSubstr("no evidence"));
  diff.steps[1].tensors.push_back(tensor_that_is(Likeness::different));
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
}

TEST(ComparedPair, DoesNotCallOtherHyperparametersRounding) {
  ComparedPair diff = diff_with(Likeness::rounding);
  diff.hyperparameters = {"lr is 0.001 in A and 0.002 in B"};
  EXPECT_EQ(verdict_of(diff), Verdict::undecided);
  EXPECT_THAT(verdict_in_words(diff),
              HasSubstr("UNDECIDED: equal up to rounding in 2 steps, 1 to 2, but lr is 0.001 in A "
                        "and 0.002 in B"));
  EXPECT_THAT(json_of(diff).dump(), HasSubstr("lr is 0.001 in A"));
  diff = diff_with(Likeness::equal);
  diff.hyperparameters = {"lr is 0.001 in A and 0.002 in B"};
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  diff = diff_with(Likeness::different);
  diff.hyperparameters = {"lr is 0.001 in A and 0.002 in B"};
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
}

TEST(ComparedPair, NamesNoLossAsTheFirstDifference) {
  ComparedPair diff = diff_with(Likeness::different);
  TensorDifference loss = tensor_that_is(Likeness::different, "loss");
  loss.quantity = Compared::loss;
  diff.steps[1].tensors.insert(diff.steps[1].tensors.begin(), loss);
  EXPECT_THAT(verdict_in_words(diff),
              HasSubstr("DIFFERENT: 1 of 1 gradients differ in step 2, first that of w"));
}

TEST(ComparedPair, HasNoDistanceOfValuesThatCouldNotBeCompared) {
  ComparedPair diff = diff_with(Likeness::undecided);
  TensorDifference& tensor = diff.steps[1].tensors[0];
  const auto relative = [&] { return json_of(diff)["steps"][1]["tensors"][0]["relative"]; };
  EXPECT_EQ(relative(), 0.5);
  EXPECT_THAT(page_of(diff), HasSubstr("<code>w</code><td>0.5"));
  tensor.relative = 0;
  tensor.cause = "ranks 0 and 1 hold different values of it";
  EXPECT_THAT(page_of(diff), HasSubstr("<code>w</code><td>-<td>"));
  tensor.likeness = Likeness::equal;
  EXPECT_EQ(relative(), 0);
}

TEST(ComparedPair, CountsTensorsThatWereLeftOut) {
  for (const Likeness likeness :
       {Likeness::equal, Likeness::rounding, Likeness::no_evidence, Likeness::undecided}) {
    ComparedPair diff = diff_with(likeness);
    TensorDifference loss = tensor_that_is(Likeness::different, "loss");
    loss.quantity = Compared::loss;
    diff.steps[1].tensors.push_back(loss);
    const Verdict before = verdict_of(diff);
    diff.steps[1].leave_out_tensors();
    EXPECT_EQ(diff.steps[1].tensors.size(), 1U) << "the loss";
    EXPECT_EQ(diff.steps[1].count(likeness), 1);
    EXPECT_EQ(verdict_of(diff), before);
    const auto json = json_of(diff);
    EXPECT_EQ(json["steps"][1]["counts"][static_cast<std::size_t>(likeness)], 1);
  }
}

TEST(ComparedPair, IsVoidIfTheRunsAreNotAlike) {
  for (const std::size_t i : {0U, 1U}) {
    ComparedPair diff = diff_with(Likeness::different);
    diff.preconditions[i].likeness = Likeness::different;
    EXPECT_TRUE(is_void(diff));
    EXPECT_EQ(verdict_of(diff), Verdict::undecided);
    EXPECT_THAT(verdict_in_words(diff), HasSubstr("VOID: the "));
  }
}

TEST(ComparedPair, IsUndecidedIfARankOfBAloneWasKilled) {
  ComparedPair diff = diff_with(Likeness::equal);
  ASSERT_EQ(verdict_of(diff), Verdict::holds);
  for (ComparedSide* const side : {&diff.sides[1], &diff.sides[0]}) {
    side->outcome = SideOutcome::died;
    side->fault.emplace().sentence = "rank 1 was killed by SIGABRT in step 2.";
    const bool is_alone = side == &diff.sides[1];
    EXPECT_EQ(verdict_of(diff), is_alone ? Verdict::undecided : Verdict::holds);
    if (!is_alone) continue;
    EXPECT_THAT(verdict_in_words(diff), HasSubstr("UNDECIDED: equal"));
    EXPECT_THAT(verdict_in_words(diff),
                HasSubstr("but in B rank 1 was killed by SIGABRT in step 2"));
  }
}

TEST(ComparedPair, DoesNotBlameTheTrainingForUnknownSamples) {
  ComparedPair diff = diff_with(Likeness::different);
  diff.preconditions[1] = {Prerequisite::samples, Likeness::undecided,
                           "unknown: watch both with --data"};
  EXPECT_TRUE(may_be_samples(diff));
  EXPECT_EQ(verdict_of(diff), Verdict::undecided);
  EXPECT_THAT(verdict_in_words(diff), HasSubstr("watch both with --data"));
  diff.steps[1].tensors[0].multiple = Ratio{2};  // other samples are no multiple
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
}

TEST(ComparedPair, DoesNotBlameTheTrainingForAnotherPrecision) {
  ComparedPair diff = diff_with(Likeness::different);
  diff.precisions = {"autocast cpu is absent in A and bfloat16 in B"};
  EXPECT_EQ(verdict_of(diff), Verdict::undecided);
  EXPECT_FALSE(is_void(diff));
  EXPECT_THAT(verdict_in_words(diff), HasSubstr("UNDECIDED: another precision may look the same, "
                                                "and autocast cpu is absent in A and bfloat16"));
  EXPECT_THAT(json_of(diff).dump(), HasSubstr("autocast cpu is absent in A"));
  diff.steps[1].tensors[0].kind = FindingKind::nothing_arrived;
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
  diff.steps[1].tensors[0].kind.reset();
  diff.steps[1].tensors[0].multiple = Ratio{2};
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
  diff = diff_with(Likeness::rounding);
  diff.precisions = {"autocast cpu is absent in A and bfloat16 in B"};
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
}

TEST(ComparedPair, SaysWhatDiffersFirst) {
  ComparedPair diff = diff_with(Likeness::different);
  diff.steps[1].tensors.push_back(tensor_that_is(Likeness::different, "b"));
  diff.steps[1].tensors[1].quantity = Compared::update;
  diff.steps[1].tensors[0].multiple = {2, 1e-6, {{CauseOfRatio::summed_over_ranks, 2}}};
  const std::string text = text_of(diff);
  EXPECT_THAT(text, HasSubstr("DIFFERENT: 1 of 1 gradients differ in step 2, first that of w: B is "
                              "A times 2: summed over 2 ranks, never averaged; "
                              "0.5 of the larger norm apart"));
  EXPECT_THAT(text, Not(HasSubstr("update of b")));  // it follows
  const auto json = json_of(diff);
  EXPECT_EQ(json["steps"][1]["tensors"][0]["name"], "w");
  EXPECT_EQ(json["steps"][1]["tensors"][0]["likeness"], "different");
}

TEST(ComparedPair, IsNotDecidedByLosses) {
  ComparedPair diff = diff_with(Likeness::equal);
  diff.steps[1].tensors.push_back(tensor_that_is(Likeness::different, "loss"));
  diff.steps[1].tensors[1].quantity = Compared::loss;
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  EXPECT_THAT(text_of(diff), HasSubstr("The recorded loss differs from step 2 on"));
}

TEST(ComparedPair, IsDecidedByBuffersButNotByStatistics) {
  ComparedPair diff = diff_with(Likeness::different);
  TensorDifference& buffer = diff.steps[1].tensors[0];
  buffer.name = "router.bias";
  buffer.quantity = Compared::buffer;
  EXPECT_EQ(verdict_of(diff), Verdict::violated);
  EXPECT_THAT(verdict_in_words(diff), HasSubstr("1 of 1 buffers differ in step 2, first that of "
                                                "router.bias"));
  buffer.quantity = Compared::statistic;
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  EXPECT_THAT(text_of(diff), HasSubstr("A buffer differs from step 2 on, which decides nothing, "
                                       "since ranks may keep such statistics of their own samples: "
                                       "router.bias\n"));
}

TEST(ComparedPair, SaysThatASideHasFewerSteps) {
  ComparedPair diff = diff_with(Likeness::rounding);
  EXPECT_EQ(verdict_in_words(diff), "equal up to rounding in 2 steps, 1 to 2");
  diff.preconditions.push_back(
      {Prerequisite::steps, Likeness::undecided, "A was observed up to step 9, and B only 2"});
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  EXPECT_EQ(
      verdict_in_words(diff),
      "equal up to rounding in 2 steps, 1 to 2, but A was observed up to step 9, and B only 2");
  EXPECT_THAT(text_of(diff), HasSubstr("steps: A was observed up to step 9, and B only 2\n"));
  EXPECT_THAT(page_of(diff), HasSubstr("steps: A was observed up to step 9, and B only 2"));
}

TEST(ComparedPair, NamesWhatCouldNotBeComparedWhereOthersDiffer) {
  ComparedPair diff = diff_with(Likeness::different);
  EXPECT_THAT(text_of(diff), Not(HasSubstr("Not compared")));
  TensorDifference open = tensor_that_is(Likeness::undecided, "head.weight");
  open.quantity = Compared::update;
  open.relative = 0;
  open.cause = "ranks 0 and 1 hold different values of it";
  diff.steps[1].tensors.push_back(open);
  EXPECT_THAT(text_of(diff),
              HasSubstr("\nNot compared in step 2: 1 of 2 tensors, such as the update of "
                        "head.weight: ranks 0 and 1 hold different values of it\n"));
}

TEST(ComparedPair, ListsNamesOfTheMapThatNoTensorHas) {
  ComparedPair diff = diff_with(Likeness::equal);
  EXPECT_THAT(text_of(diff), Not(HasSubstr("--map")));
  diff.unmapped = {"layer.0", "layer.1"};
  EXPECT_THAT(text_of(diff),
              HasSubstr("no tensor of A has these names of --map: layer.0, layer.1\n"));
  EXPECT_EQ(json_of(diff)["unmapped"], (nlohmann::json{"layer.0", "layer.1"}));
}

TEST(ComparedPair, ListsNamesOfOneSideWithTheirCount) {
  ComparedPair diff = diff_with(Likeness::equal);
  diff.unmatched[1] = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_THAT(text_of(diff), HasSubstr("only in B (7 of 8 parameters): a, b, c, d, e and 2 more"));
  diff.matched = 0;
  EXPECT_THAT(text_of(diff), HasSubstr("NOTHING MATCHED"));
}

}  // namespace
}  // namespace lockstep
