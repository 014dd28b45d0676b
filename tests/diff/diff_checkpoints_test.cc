// Two checkpoints in files, compared element by element.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/diff_side.h"
#include "harness/diff/diff_weights.h"
#include "reports/record/finding_key.h"
#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/command.h"
#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Values = std::vector<float>;

/// A tensor of a safetensors file.
struct Stored {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

using Model = std::map<std::string, Stored>;

Values normal_values(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Stored stored(const Values& values, const std::vector<std::int64_t>& shape) {
  return {"F32", shape, bytes_of(values)};
}

Values values_of(const Stored& tensor) {
  Values values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// A block of attention, an embedding, a norm whose bias is 0, and a scale.
Model model() {
  Model all;
  std::uint32_t seed = 0;
  for (const char* name : {"embed", "k", "q", "v", "up"}) {
    all[fmt::format("{}.weight", name)] = stored(normal_values(++seed, 32 * 16), {32, 16});
  }
  all["norm.bias"] = stored(Values(16), {16});
  all["norm.weight"] = stored(Values(16, 1), {16});
  all["scale"] = stored({1.5F}, {1});
  return all;
}

Stored rounded(const Stored& tensor, bool is_cut) {
  std::vector<std::uint16_t> halves;
  for (const float value : values_of(tensor)) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t added = is_cut ? 0 : 0x7fff + (bits >> 16 & 1);
    halves.push_back(static_cast<std::uint16_t>((bits + added) >> 16));
  }
  return {"BF16", tensor.shape, bytes_of(halves)};
}

Stored widened(const Stored& tensor) {
  const Values values = values_of(tensor);
  return {"F64", tensor.shape, bytes_of(std::vector<double>(values.begin(), values.end()))};
}

class CheckpointPairs : public testing::Test {
 protected:
  Weights weights(const Model& tensors) {
    std::vector<std::string> entries;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.size();
      data += tensor.bytes;
      entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                    name, tensor.dtype, fmt::join(tensor.shape, ","), begin,
                                    data.size()));
    }
    const fs::path path = folder_.path() / fmt::format("{}.safetensors", files_++);
    write_text(path, safetensors(fmt::format("{{{}}}", fmt::join(entries, ",")), data));
    return weights_of_checkpoint(path, "ckpt");
  }

  ComparedPair diff(const Model& a, const Model& b, const WeightsRequest& request = {{}, true}) {
    return diff_weights(weights(a), weights(b), {}, request);
  }

  /// With what changes `up.weight`.
  ComparedPair changed(const std::function<void(Values&)>& change,
                       const WeightsRequest& request = {{}, true}) {
    Model b = model();
    Values values = values_of(b["up.weight"]);
    change(values);
    b["up.weight"].bytes = bytes_of(values);
    return diff(model(), b, request);
  }

 private:
  TemporaryFolder folder_;
  int files_ = 0;
};

/// Throws if it is not compared.
const TensorDifference& tensor_of(const ComparedPair& diff, const std::string& name) {
  const auto& all = diff.steps.at(0).tensors;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TensorDifference& one) { return one.name == name; });
  return all.at(static_cast<std::size_t>(found - all.begin()));
}

std::string words(const ComparedPair& diff) { return unwrapped(text_of(diff)); }

TEST_F(CheckpointPairs, WithTheSameBitsAreEqual) {
  const ComparedPair same = diff(model(), model());
  EXPECT_EQ(verdict_of(same), Verdict::holds);
  EXPECT_THAT(words(same), HasSubstr("equal, bit for bit: 8 weights"));
}

/// Each pair, among them those that one sketch does not see.
TEST_F(CheckpointPairs, DifferByAnyExchangeOfTwoElements) {
  using Places = std::pair<std::size_t, std::size_t>;
  for (const Places& places : {Places{0, 312}, {1, 121}, {0, 300}, {5, 6}, {0, 16}}) {
    const ComparedPair found =
        changed([&](Values& values) { std::swap(values[places.first], values[places.second]); });
    EXPECT_EQ(verdict_of(found), Verdict::violated);
    const auto& elements = *tensor_of(found, "up.weight").elements;
    EXPECT_EQ(elements.differing, 2);
    EXPECT_EQ(elements.differing_rows, places.first / 16 == places.second / 16 ? 1 : 2);
    EXPECT_EQ(found.steps[0].count(Likeness::different), 1);
  }
}

TEST_F(CheckpointPairs, DifferByAnyBitOfAnyElement) {
  for (const int bit : {0, 8, 16, 22, 23, 31}) {
    const ComparedPair found = changed([&](Values& values) {
      values[77] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[77]) ^ 1U << bit);
    });
    EXPECT_EQ(verdict_of(found), Verdict::violated) << bit;
    EXPECT_THAT(tensor_of(found, "up.weight").elements->place, ElementsAre(4, 13));
    EXPECT_THAT(words(found), HasSubstr("DIFFERENT: 1 of 8 weights, up.weight: "));
    EXPECT_THAT(words(found), HasSubstr("1 of 512 elements differ, in 1 of 32 rows, farthest at "
                                        "[4, 13]: "));
  }
  const ComparedPair last =
      changed([](Values& values) { values[77] = std::nextafter(values[77], 0.0F); });
  EXPECT_THAT(words(last), HasSubstr(", 1 units in the last place"));
}

TEST_F(CheckpointPairs, DifferByTheSignOfAZero) {
  Model b = model();
  Values bias(16);
  bias[3] = -0.0F;
  b["norm.bias"].bytes = bytes_of(bias);
  const ComparedPair found = diff(model(), b);
  EXPECT_EQ(tensor_of(found, "norm.bias").likeness, Likeness::different);
  EXPECT_EQ(tensor_of(found, "norm.bias").elements->ulps, 0);
}

/// The same changes, of checkpoints that trainings wrote: the last place is rounding, more may be
/// drift.
TEST_F(CheckpointPairs, OfTrainingsMayDifferInTheLastPlace) {
  const auto likeness = [&](int places) {
    const ComparedPair found = changed(
        [&](Values& values) {
          values[5] = std::bit_cast<float>(std::bit_cast<std::int32_t>(values[5]) + places);
        },
        {});
    return tensor_of(found, "up.weight").likeness;
  };
  EXPECT_EQ(likeness(1), Likeness::rounding);
  EXPECT_EQ(likeness(8), Likeness::undecided);
  EXPECT_EQ(verdict_of(changed([](Values& v) { std::swap(v[0], v[312]); }, {})),
            Verdict::undecided);
}

TEST_F(CheckpointPairs, InAnotherTypeAreHealthyCopiesIfEachElementIsNearest) {
  Model halves, cut, wide;
  for (const auto& [name, tensor] : model()) {
    halves[name] = rounded(tensor, false);
    cut[name] = rounded(tensor, true);
    wide[name] = widened(tensor);
  }
  for (const WeightsRequest& request : {WeightsRequest{{}, true}, WeightsRequest{}}) {
    EXPECT_EQ(verdict_of(diff(model(), halves, request)), Verdict::holds);
    EXPECT_EQ(verdict_of(diff(halves, model(), request)), Verdict::holds);
    EXPECT_EQ(verdict_of(diff(model(), wide, request)), Verdict::holds);
  }
  EXPECT_THAT(words(diff(model(), halves)), HasSubstr("equal up to rounding: 8 weights"));
  EXPECT_THAT(words(diff(model(), wide)), HasSubstr("the same values in another type"));
  EXPECT_EQ(verdict_of(diff(model(), cut)), Verdict::violated);
  EXPECT_EQ(verdict_of(diff(model(), cut, {})), Verdict::undecided);
  Model twice = halves;
  twice["up.weight"] = rounded(stored(normal_values(77, 512), {32, 16}), false);
  EXPECT_EQ(diff(model(), twice).steps[0].count(Likeness::different), 1);
}

TEST_F(CheckpointPairs, HaveExactRatiosAndDistances) {
  const ComparedPair found = changed([](Values& values) {
    for (std::size_t i = 0; i < 256; ++i) values[i] *= 1.25F;
  });
  const TensorDifference& one = tensor_of(found, "up.weight");
  const Values a = values_of(model()["up.weight"]);
  double squares = 0, both = 0, others = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = i < 256 ? a[i] * 1.25F : a[i];
    squares += x * x, both += x * y, others += y * y, apart += (y - x) * (y - x);
  }
  EXPECT_FALSE(one.estimate_error);
  EXPECT_NEAR(*one.ratio, both / squares, 1e-12);
  EXPECT_NEAR(*one.cosine, both / std::sqrt(squares * others), 1e-12);
  EXPECT_NEAR(one.relative, std::sqrt(apart / others), 1e-12);
  EXPECT_EQ(one.elements->differing, 256);
  EXPECT_THAT(words(found), testing::Not(HasSubstr("estimate")));
}

TEST_F(CheckpointPairs, ThatLackATensorDiffer) {
  for (const char* name : {"norm.bias", "k.weight"}) {
    Model fewer = model();
    fewer.erase(name);
    const ComparedPair missing = diff(model(), fewer);
    EXPECT_EQ(verdict_of(missing), Verdict::violated) << name;
    EXPECT_EQ(verdict_of(diff(model(), fewer, {})), Verdict::violated);
    EXPECT_EQ(tensor_of(missing, name).cause.find("there is none in B"), 0U);
    EXPECT_EQ(keys_of(missing).size(), 1U);
    EXPECT_THAT(words(missing), HasSubstr("; 1 only in A: "));
    EXPECT_EQ(verdict_of(diff(fewer, model())), Verdict::violated);
    EXPECT_EQ(verdict_of(diff(model(), fewer, {{}, true, true})), Verdict::holds);
    EXPECT_THAT(words(diff(model(), fewer, {{}, true, true})),
                HasSubstr("only 7 of 8 are on both sides"));
  }
}

TEST_F(CheckpointPairs, ThatNameATensorOtherwiseAreToldTheNearestName) {
  Model b = model();
  b["up.wieght"] = b["up.weight"];
  b.erase("up.weight");
  EXPECT_THAT(tensor_of(diff(model(), b), "up.weight").cause, HasSubstr("is up.wieght"));
}

/// A head that shares its weights with the embedding is written once by some and twice by others.
TEST_F(CheckpointPairs, MayHaveATiedTensorOnce) {
  Model twice = model();
  twice["head.weight"] = twice["embed.weight"];
  for (const ComparedPair& found : {diff(twice, model()), diff(model(), twice)}) {
    EXPECT_EQ(verdict_of(found), Verdict::holds);
    EXPECT_EQ(found.tied.at(0).same, "embed.weight");
    EXPECT_THAT(found.unmatched[0], IsEmpty());
    EXPECT_THAT(words(found), HasSubstr("has head.weight, with the bits of embed.weight"));
  }
  Model other = model();
  other["head.weight"] = stored(normal_values(99, 512), {32, 16});
  EXPECT_EQ(verdict_of(diff(other, model())), Verdict::violated);
  Model adapters = model();  // zeros are not tied to other zeros
  adapters["a.lora_B"] = adapters["b.lora_B"] = stored(Values(32), {4, 8});
  Model fewer = adapters;
  fewer.erase("b.lora_B");
  EXPECT_EQ(verdict_of(diff(adapters, fewer)), Verdict::violated);
}

TEST_F(CheckpointPairs, ThatAreFusedAreComparedInTheOrderOfTheMap) {
  const Model parts = model();
  const auto fused = [&](const std::vector<std::string>& order) {
    Model whole = parts;
    std::string bytes;
    for (const std::string& name : order) bytes += whole[name].bytes;
    for (const std::string& name : order) whole.erase(name);
    whole["qkv.weight"] = {"F32", {96, 16}, bytes};
    return whole;
  };
  const Model right = fused({"q.weight", "k.weight", "v.weight"});
  const Model wrong = fused({"k.weight", "q.weight", "v.weight"});
  EXPECT_EQ(verdict_of(diff(right, parts)), Verdict::violated);
  EXPECT_THAT(words(diff(parts, right)), HasSubstr("3 only in A, 1 only in B"));
  NameMap names;
  names.add("qkv.weight", {"q.weight", "k.weight", "v.weight"});
  EXPECT_EQ(verdict_of(diff(right, parts, {names, true})), Verdict::holds);
  EXPECT_THAT(words(diff(right, parts, {names, true})), HasSubstr("equal, bit for bit: 6 weights"));
  const ComparedPair found = diff(wrong, parts, {names, true});
  EXPECT_EQ(verdict_of(found), Verdict::violated);
  EXPECT_EQ(tensor_of(found, "qkv.weight").elements->differing_rows, 64);
}

}  // namespace
}  // namespace lockstep
