#include "harness/diff/diff_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/diff/diff_side.h"
#include "harness/record/dtype.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "reports/comparison/tensor_words.h"
#include "tests/command.h"
#include "tests/refusal.h"
#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Values = std::vector<float>;

/// The rounding of torch's `bfloat16()`: to nearest, ties to even.
std::uint16_t bfloat_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

WholeTensor whole_of(const std::string& dtype, const std::vector<std::int64_t>& shape,
                     std::span<const std::byte> bytes) {
  Observation row;
  row.dtype = dtype;
  row.global_shape = row.local_shape = shape;
  row.offset = Shape(shape.size(), 0);
  measure(row, bytes);
  WholeTensor whole;
  whole.dtype = dtype;
  whole.shape = shape;
  whole.elements = element_count(shape);
  whole.digest = row.digest;
  whole.norm = row.statistics.norm;
  whole.non_finite = row.statistics.non_finite;
  whole.sketch = sketch_of(row, bytes);
  return whole;
}

/// A matrix of two rows.
WholeTensor matrix(const Values& values) {
  return whole_of("float32", {2, static_cast<std::int64_t>(values.size()) / 2},
                  std::as_bytes(std::span(values)));
}

WholeTensor rounded(const Values& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(bfloat_of(value));
  return whole_of("bfloat16", {2, static_cast<std::int64_t>(values.size()) / 2},
                  std::as_bytes(std::span(bits)));
}

Values drawn(std::uint32_t seed, std::size_t count = 1000) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Values changed(Values values, const std::function<float(float)>& change) {
  for (float& value : values) value = change(value);
  return values;
}

/// A checkpoint of these tensors.
Weights checkpoint(const std::map<std::string, WholeTensor>& tensors) {
  Weights weights;
  weights.side = {
      "ckpt", "model.safetensors", "", 0, 0, static_cast<std::int64_t>(tensors.size()), 0, 0};
  std::vector<std::pair<WholeTensorKey, WholeTensor>> all;
  for (const auto& [name, tensor] : tensors) {
    all.emplace_back(WholeTensorKey{Phase::post_step, Kind::parameter, name}, tensor);
  }
  weights.tensors = WholeTensors(std::move(all));
  return weights;
}

TensorDifference only(const WholeTensor& a, const WholeTensor& b, bool are_same_values = false) {
  const ComparedPair diff =
      diff_weights(checkpoint({{"w", a}}), checkpoint({{"w", b}}), {}, {{}, are_same_values});
  EXPECT_EQ(diff.steps.at(0).tensors.size(), 1U);
  return diff.steps.at(0).tensors.at(0);
}

TEST(Weights, WithTheSameBitsAreEqual) {
  const TensorDifference found = only(matrix(drawn(1)), matrix(drawn(1)));
  EXPECT_EQ(found.likeness, Likeness::equal);
  EXPECT_EQ(found.quantity, Compared::weight);
}

/// The bound is that of one rounding: a healthy copy stays below it, whatever its size, and twice
/// the rounding does not.
TEST(Weights, OfACopyInACoarserTypeAreEqualUpToRounding) {
  for (const std::size_t count : {2U, 64U, 1000U, 100'000U}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      const Values values = drawn(seed, count);
      const TensorDifference found = only(matrix(values), rounded(values));
      EXPECT_EQ(found.likeness, Likeness::rounding) << count << " " << seed;
      EXPECT_LE(found.relative, found.tolerance);
      EXPECT_NEAR(found.tolerance, 0x1p-8, 1e-6);
    }
  }
  const Values values = drawn(1);
  const Values off = changed(values, [](float x) { return x * (1 + 0x1p-4F); });
  EXPECT_NE(only(matrix(values), rounded(off)).likeness, Likeness::rounding);
}

TEST(Weights, ThatAreTinyMayLoseTheirSubnormalDigits) {
  const std::vector<std::uint16_t> halves{1, 1, 2, 0};  // multiples of 2^-24
  const Values values{1.4F * 0x1p-24F, 0.6F * 0x1p-24F, 1.6F * 0x1p-24F, 0.4F * 0x1p-24F};
  const WholeTensor half = whole_of("float16", {2, 2}, std::as_bytes(std::span(halves)));
  EXPECT_EQ(only(matrix(values), half).likeness, Likeness::rounding);
}

TEST(Weights, OfAKnownMultipleAreDifferent) {
  const Values values = drawn(1);
  const auto times = [&](float factor) {
    return only(matrix(values), matrix(changed(values, [&](float x) { return factor * x; })));
  };
  EXPECT_EQ(times(2).likeness, Likeness::different);
  EXPECT_EQ(cause_in_words(times(2)), "A times 2");
  EXPECT_EQ(cause_in_words(times(0.5F)), "A times 1/2");
  EXPECT_EQ(cause_in_words(times(-1)), "A times -1");
  EXPECT_EQ(cause_in_words(times(0.625F)), "A times 5/8");
  EXPECT_EQ(times(1.0123F).likeness, Likeness::undecided);  // as weight decay makes it
  const TensorDifference other_type =
      only(matrix(values), rounded(changed(values, [](float x) { return 2 * x; })));
  EXPECT_EQ(cause_in_words(other_type), "A times 2");
}

TEST(Weights, ThatAreCountsMayBeMultiples) {
  const std::vector<std::int64_t> hundred{100}, two_hundred{200};
  const TensorDifference found =
      only(whole_of("int64", {1}, std::as_bytes(std::span(hundred))),
           whole_of("int64", {1}, std::as_bytes(std::span(two_hundred))));
  EXPECT_EQ(found.likeness, Likeness::undecided);
  EXPECT_FALSE(found.multiple);
}

TEST(Weights, OfAnotherFormAreDifferent) {
  const Values values = drawn(1, 6);
  const auto bytes = std::as_bytes(std::span(values));
  const auto shaped = [&](const std::vector<std::int64_t>& shape) {
    return whole_of("float32", shape, bytes);
  };
  const TensorDifference transposed = only(shaped({2, 3}), shaped({3, 2}));
  EXPECT_EQ(transposed.likeness, Likeness::different);
  EXPECT_EQ(transposed.cause, "shape [2, 3] in A and [3, 2] in B");
  EXPECT_EQ(only(shaped({6}), shaped({2, 3})).cause, "shape [6] in A and [2, 3] in B");
  EXPECT_EQ(only(matrix(drawn(1, 4)), shaped({2, 3})).cause, "4 elements in A and 6 in B");
  WholeTensor of_job = shaped({6});  // perhaps flattened before it was cut
  of_job.shape.reset();
  EXPECT_EQ(only(of_job, shaped({2, 3})).likeness, Likeness::equal);
}

TEST(Weights, ThatAreNotFiniteAreDifferentUnlessBothAre) {
  Values values = drawn(1);
  const WholeTensor good = matrix(values);
  values[3] = NAN;
  const WholeTensor bad = matrix(values);
  EXPECT_EQ(only(good, bad).likeness, Likeness::different);
  EXPECT_EQ(only(good, bad).cause, "elements that are not finite: 0 in A, 1 in B");
  EXPECT_EQ(only(bad, bad).likeness, Likeness::equal);
  EXPECT_FALSE(only(bad, bad).is_finite);
  values[4] = INFINITY;
  EXPECT_EQ(only(bad, matrix(values)).cause, "elements that are not finite: 1 in A, 2 in B");
}

TEST(Weights, ThatMayHaveDriftedAreUndecidedUnlessBothShouldBeEqual) {
  const WholeTensor a = matrix(drawn(1)), b = matrix(drawn(2));
  EXPECT_EQ(only(a, b).likeness, Likeness::undecided);
  EXPECT_EQ(only(a, b, true).likeness, Likeness::different);
  EXPECT_EQ(only(a, matrix(Values(1000))).likeness, Likeness::undecided);
  EXPECT_EQ(only(a, matrix(Values(1000)), true).likeness, Likeness::different);
}

/// B is as far from A as a repetition is, or 100 times as far.
TEST(Weights, AreComparedWithTheDistanceOfRepetitions) {
  const Values values = drawn(1), noise = drawn(2);
  const auto moved = [&](float by) {
    Values sum = values;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += by * noise[i];
    return checkpoint({{"w", matrix(sum)}});
  };
  const auto likeness = [&](float of_b) {
    const ComparedPair diff = diff_weights(moved(0), moved(of_b), {moved(-0.001F)}, {});
    return diff.steps.at(0).tensors.at(0).likeness;
  };
  EXPECT_EQ(likeness(0.002F), Likeness::rounding);
  EXPECT_EQ(likeness(0.03F), Likeness::undecided);
  EXPECT_EQ(likeness(0.2F), Likeness::different);
}

TEST(Weights, AreFoundByTheNamesOfTheirModel) {
  const WholeTensor one = matrix(drawn(1)), two = matrix(drawn(2)), three = matrix(drawn(3));
  const ComparedPair diff = diff_weights(
      checkpoint({{"model.a", one}, {"model._orig_mod.b", two}, {"step", three}}),
      checkpoint({{"a", one}, {"module.b", two}, {"c", three}}), {}, {{}, false, true});
  EXPECT_EQ(diff.matched, 2);
  EXPECT_THAT(diff.unmatched[0], ElementsAre("step"));
  EXPECT_THAT(diff.unmatched[1], ElementsAre("c"));
  EXPECT_EQ(verdict_of(diff), Verdict::holds);
  EXPECT_THAT(unwrapped(text_of(diff)),
              HasSubstr("equal, bit for bit: 2 weights; only 2 of 3 are on both sides"));
}

TEST(Weights, AreRenamedByAMapWhoseOtherNamesAreTold) {
  NameMap names;
  names.add("a", {"b"});
  names.add("gone", {"c"});
  names.add("whole", {"d", "e"});
  const WholeTensor one = matrix(drawn(1));
  const ComparedPair diff =
      diff_weights(checkpoint({{"a", one}}), checkpoint({{"b", one}}), {}, {names, false});
  EXPECT_EQ(diff.matched, 1);
  EXPECT_THAT(diff.unmapped, ElementsAre("gone", "whole"));
}

TEST(NameMapFile, IsRefusedIfItSaysNothingOrSomethingTwice) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) {
    write_text(folder.path() / "map", text);
    return refusal_of(folder.path() / "map", [&] { NameMap::read(folder.path() / "map"); });
  };
  EXPECT_EQ(refusal("a b\nc d e\n"), "accepted");
  EXPECT_EQ(refusal("# a b\n\n"), ": expected lines of an old name and a new one, found 'none'.");
  EXPECT_EQ(refusal("a b\na c\n"), ":2: expected an old name that no other line has, found 'a'.");
  EXPECT_EQ(refusal("a b\nc b\n"), ":2: expected a new name that no other line has, found 'b'.");
}

TEST(Weights, KeepANameThatAnotherOneWouldTake) {
  const WholeTensor one = matrix(drawn(1)), two = matrix(drawn(2));
  const ComparedPair diff =
      diff_weights(checkpoint({{"model.a", one}, {"a", two}, {"model.b", two}}),
                   checkpoint({{"a", two}, {"b", two}}), {}, {{}, false, true});
  EXPECT_EQ(diff.matched, 2);
  EXPECT_EQ(verdict_of(diff), Verdict::holds) << text_of(diff);
}

TEST(Weights, AreToldByName) {
  const WholeTensor one = matrix(drawn(1)), two = matrix(drawn(2)), three = matrix(drawn(3));
  const Weights a = checkpoint({{"a", one}, {"b", one}, {"c", one}});
  const auto said = [&](const Weights& b, const WeightsRequest& request) {
    return unwrapped(text_of(diff_weights(a, b, {}, request)));
  };
  const Weights drifted = checkpoint({{"a", one}, {"b", two}, {"c", three}});
  EXPECT_THAT(said(drifted, {}), HasSubstr("UNDECIDED: 2 of 3 weights, first b: ratio"));
  EXPECT_THAT(said(drifted, {}), HasSubstr("--expect same says that both should hold the same"));
  EXPECT_THAT(said(drifted, {}), HasSubstr(" c: ratio"));
  EXPECT_THAT(said(drifted, {{}, true}), HasSubstr("DIFFERENT: 2 of 3 weights, first b: ratio"));
  EXPECT_THAT(said(checkpoint({{"x", one}}), {}), HasSubstr("NOTHING MATCHED"));
  EXPECT_EQ(verdict_of(diff_weights(a, checkpoint({{"x", one}}), {}, {})), Verdict::undecided);
  EXPECT_THAT(said(a, {}), HasSubstr("A: model.safetensors, 3 tensors (ckpt)"));
}

}  // namespace
}  // namespace lockstep
