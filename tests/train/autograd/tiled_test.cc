#include "harness/train/autograd/tiled.h"

#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <string>

#include "harness/train/nn/module.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 6;

/// A polynomial of its input: exact for numbers with few digits.
struct Product : Module {
  explicit Product(std::uint64_t seed = 3)
      : gate(register_module("gate", std::make_shared<Linear>(kWidth, 5, cpu_generator(seed)))),
        up(register_module("up", std::make_shared<Linear>(kWidth, 5, cpu_generator(seed + 1)))) {
    to(at::kDouble);
  }

  at::Tensor forward(const at::Tensor& rows) override {
    return gate->forward(rows) * up->forward(rows);
  }

  std::shared_ptr<Linear> gate, up;
};

at::Tensor small_numbers(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randint(-2, 3, shape, cpu_generator(seed), at::kDouble) / 4;
}

void make_exact(Module& module) {
  const at::NoGradGuard no_grad;
  std::uint64_t seed = 50;
  for (at::Tensor& parameter : module.parameters()) {
    parameter.copy_(small_numbers(parameter.sizes(), seed++));
  }
}

TileFunction forward_of(Module& module) {
  return
      [&module](const at::Tensor& rows) { return std::vector<at::Tensor>{module.forward(rows)}; };
}

/// Output, input gradient, and gradients of the parameters of one forward and backward.
struct Trained {
  at::Tensor output;
  at::Tensor input_gradient;
  std::map<std::string, at::Tensor> gradients;
};

Trained train(Module& module, const at::Tensor& values,
              const std::optional<TilingOptions>& tiling) {
  const at::Tensor input = values.detach().requires_grad_(true);
  const at::Tensor output =
      tiling ? tiled(forward_of(module), module.parameters(), input, *tiling).front()
             : module.forward(input);
  output.backward(small_numbers(output.sizes(), 9));
  Trained trained{output.detach(), input.grad(), {}};
  for (const NamedTensor& entry : module.named_parameters()) {
    trained.gradients[entry.name] = entry.tensor.grad();
  }
  return trained;
}

using TileWay = std::tuple<TileBackward, TileAccumulation, std::int64_t>;  // the last: tiles

class EveryWay : public testing::TestWithParam<TileWay> {
 protected:
  TilingOptions tiling() const {
    const auto& [backward, accumulation, tiles] = GetParam();
    return {.tiles = tiles, .backward = backward, .accumulation = accumulation};
  }
};

TEST_P(EveryWay, IsTheWholeFunction) {
  for (const auto& shape :
       {std::vector<std::int64_t>{2, 8, kWidth}, {1, 11, kWidth}, {9, kWidth}}) {
    Product whole, in_tiles;
    const Trained expected = train(whole, normal(shape, 1, at::kDouble), std::nullopt);
    const Trained actual = train(in_tiles, normal(shape, 1, at::kDouble), tiling());
    EXPECT_TRUE(at::allclose(actual.output, expected.output, 1e-12, 1e-14));
    EXPECT_TRUE(at::allclose(actual.input_gradient, expected.input_gradient, 1e-12, 1e-14));
    for (const auto& [name, gradient] : expected.gradients) {
      EXPECT_TRUE(at::allclose(actual.gradients.at(name), gradient, 1e-12, 1e-14)) << name;
    }
  }
}

TEST_P(EveryWay, IsItBitForBitWhereSumsAreExact) {
  Product whole, in_tiles;
  make_exact(whole);
  make_exact(in_tiles);
  const at::Tensor values = small_numbers({2, 11, kWidth}, 1);
  const Trained expected = train(whole, values, std::nullopt);
  const Trained actual = train(in_tiles, values, tiling());
  EXPECT_TRUE(at::equal(actual.output, expected.output));
  EXPECT_TRUE(at::equal(actual.input_gradient, expected.input_gradient));
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(at::equal(actual.gradients.at(name), gradient)) << name;
  }
}

/// Except for a known case: see Tiled.OneTileSetAsideLosesWhatWasThere.
TEST_P(EveryWay, AddsToTheGradientThatIsThere) {
  const auto& [backward, accumulation, tiles] = GetParam();
  const bool loses = backward == TileBackward::grad_but_last &&
                     accumulation == TileAccumulation::set_aside && tiles == 1;
  Product whole, in_tiles;
  for (Product* product : {&whole, &in_tiles}) {
    for (const at::Tensor& parameter : product->parameters()) {
      parameter.mutable_grad() = at::ones_like(parameter);
    }
  }
  const Trained expected = train(whole, normal({9, kWidth}, 1, at::kDouble), std::nullopt);
  const Trained actual = train(in_tiles, normal({9, kWidth}, 1, at::kDouble), tiling());
  for (const auto& [name, gradient] : expected.gradients) {
    const at::Tensor difference = gradient - actual.gradients.at(name);
    const at::Tensor lost = at::ones_like(difference) * (loses ? 1.0 : 0.0);
    EXPECT_TRUE(at::allclose(difference, lost, 0, 1e-12)) << name;
  }
}

TEST_P(EveryWay, PassesOverFrozenParameters) {
  Product whole, in_tiles;
  for (Product* product : {&whole, &in_tiles}) product->gate->freeze();
  const Trained expected = train(whole, normal({9, kWidth}, 1, at::kDouble), std::nullopt);
  const Trained actual = train(in_tiles, normal({9, kWidth}, 1, at::kDouble), tiling());
  EXPECT_TRUE(at::allclose(actual.input_gradient, expected.input_gradient, 1e-12, 1e-14));
  EXPECT_FALSE(actual.gradients.at("gate.weight").defined());
  EXPECT_TRUE(at::allclose(actual.gradients.at("up.weight"), expected.gradients.at("up.weight"),
                           1e-12, 1e-14));
}

TEST_P(EveryWay, RunsHooksAsOftenAsItSays) {
  const auto& [backward, accumulation, tiles] = GetParam();
  Product product;
  std::map<std::string, std::int64_t> calls;
  std::vector<decltype(torch::autograd::Edge::function)> accumulators;
  for (const NamedTensor& entry : product.named_parameters()) {
    accumulators.push_back(torch::autograd::impl::grad_accumulator(entry.tensor));
    accumulators.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [&calls, name = entry.name](const torch::autograd::variable_list& outputs,
                                    const torch::autograd::variable_list&) {
          ++calls[name];
          return outputs;
        }));
  }
  train(product, normal({9, kWidth}, 1, at::kDouble), tiling());
  for (const NamedTensor& entry : product.named_parameters()) {
    EXPECT_EQ(calls[entry.name], backward == TileBackward::backward_per_tile ? tiles : 1)
        << entry.name;
  }
}

TEST_P(EveryWay, TellsWhereATileBeginsAndEnds) {
  Product product;
  TilingOptions shown_of = tiling();
  std::vector<std::int64_t> begun;
  std::vector<std::int64_t> ended;
  shown_of.before_tile = [&](const TileTurn& turn) { begun.push_back(turn.tile); };
  shown_of.after_tile = [&](const TileTurn& turn) {
    ended.push_back(turn.tile);
    EXPECT_EQ(ended, begun);
  };
  const at::Tensor input = normal({9, kWidth}, 1, at::kDouble).requires_grad_(true);
  const at::Tensor output =
      tiled(forward_of(product), product.parameters(), input, shown_of).front();
  EXPECT_TRUE(begun.empty());
  output.sum().backward();
  ASSERT_EQ(static_cast<std::int64_t>(ended.size()), shown_of.tiles);
  for (std::int64_t tile = 0; tile < shown_of.tiles; ++tile) EXPECT_EQ(ended[tile], tile);
}

std::string name_of(const testing::TestParamInfo<TileWay>& way) {
  const auto& [backward, accumulation, tiles] = way.param;
  const std::vector<std::string> backwards{"BackwardPerTile", "GradButLast", "ExplicitInputs"};
  return backwards[static_cast<std::size_t>(backward)] +
         (accumulation == TileAccumulation::in_place ? "InPlace" : "SetAside") +
         std::to_string(tiles);
}

INSTANTIATE_TEST_SUITE_P(
    Of, EveryWay,
    testing::Combine(testing::Values(TileBackward::backward_per_tile, TileBackward::grad_but_last,
                                     TileBackward::explicit_inputs),
                     testing::Values(TileAccumulation::in_place, TileAccumulation::set_aside),
                     testing::Values(1, 2, 3, 4, 8)),
    name_of);

/// The pull request relies on this when it does not change a run of one rank.
TEST(Tiled, GradButLastIsBackwardPerTileBitForBit) {
  for (const std::int64_t tiles : {1, 2, 3, 4, 8}) {
    Product one, other;
    const Trained a =
        train(one, normal({11, kWidth}, 1, at::kDouble), TilingOptions{.tiles = tiles});
    const Trained b = train(other, normal({11, kWidth}, 1, at::kDouble),
                            TilingOptions{.tiles = tiles, .backward = TileBackward::grad_but_last});
    EXPECT_TRUE(at::equal(a.input_gradient, b.input_gradient));
    for (const auto& [name, gradient] : a.gradients) {
      EXPECT_TRUE(at::equal(gradient, b.gradients.at(name))) << name << " in " << tiles;
    }
  }
}

TEST(Tiled, SeesAnInputWithoutGradientOnlyByItsParameters) {
  Product product;
  for (const TileBackward backward : {TileBackward::backward_per_tile, TileBackward::grad_but_last,
                                      TileBackward::explicit_inputs}) {
    const at::Tensor output =
        tiled(forward_of(product), product.parameters(), normal({8, kWidth}, 1, at::kDouble),
              {.tiles = 2, .backward = backward})
            .front();
    EXPECT_EQ(output.requires_grad(), backward == TileBackward::explicit_inputs);
  }
}

/// Random numbers of a recomputed tile: its own, others, or the first tile's.
TEST(Tiled, DrawsItsOwnRandomNumbersAgain) {
  for (const TileRandom random :
       {TileRandom::restored, TileRandom::drawn_anew, TileRandom::first_for_all}) {
    at::Generator masks = cpu_generator(5);
    std::vector<at::Tensor> drawn;  // three tiles in forward, the same three in backward
    const auto function = [&](const at::Tensor& rows) {
      drawn.push_back(at::rand(rows.sizes(), masks, rows.options()));
      return std::vector<at::Tensor>{rows * drawn.back()};
    };
    const at::Tensor input = normal({6, kWidth}, 1, at::kDouble).requires_grad_(true);
    const TilingOptions tiling{.tiles = 3, .generators = {masks}, .random = random};
    const auto outputs = tiled(function, {}, input, tiling);
    masks.set_current_seed(77);
    outputs[0].sum().backward();
    ASSERT_EQ(drawn.size(), 6U);
    for (std::size_t tile = 0; tile < 3; ++tile) {
      EXPECT_EQ(
          at::equal(drawn[3 + tile], drawn[tile]),
          random == TileRandom::restored || (random == TileRandom::first_for_all && tile == 0))
          << tile;
      EXPECT_EQ(at::equal(drawn[3 + tile], drawn[0]),
                tile == 0 ? random != TileRandom::drawn_anew : random == TileRandom::first_for_all)
          << tile;
    }
    const at::Tensor after = at::rand({4}, masks, at::kDouble);
    masks.set_current_seed(77);
    EXPECT_EQ(at::equal(after, at::rand({4}, masks, at::kDouble)), random != TileRandom::drawn_anew)
        << "a recomputed tile leaves the generator where it was";
  }
}

TEST(Tiled, GivesZerosToAnInputThatATileDoesNotUse) {
  Product product;
  const at::Tensor input = normal({4, kWidth}, 1, at::kDouble).requires_grad_(true);
  int calls = 0;
  const auto function = [&](const at::Tensor& rows) {
    const bool uses_rows = ++calls % 2 == 1;
    return std::vector<at::Tensor>{product.forward(uses_rows ? rows : rows.detach())};
  };
  tiled(function, product.parameters(), input, {.tiles = 2})[0].sum().backward();
  EXPECT_FALSE(at::equal(input.grad()[0], at::zeros_like(input[0])));
  EXPECT_TRUE(at::equal(input.grad()[3], at::zeros_like(input[3])));
}

/// Two outputs, the second of another shape.
std::vector<at::Tensor> with_router(Product& product, const at::Tensor& rows) {
  return {product.gate->forward(rows), product.up->forward(rows).softmax(-1).narrow(-1, 0, 2)};
}

TEST(Tiled, DropsTheGradientOfFurtherOutputsOnlyWhenAsked) {
  for (const bool carries : {true, false}) {
    Product product;
    const at::Tensor input = normal({2, 4, kWidth}, 1, at::kDouble).requires_grad_(true);
    const auto outputs = tiled(
        [&](const at::Tensor& rows) { return with_router(product, rows); }, product.parameters(),
        input,
        {.tiles = 3, .backward = TileBackward::grad_but_last, .carries_all_outputs = carries});
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_THAT(outputs[1].sizes().vec(), testing::ElementsAre(2, 4, 2));
    (outputs[0].pow(2).sum() + outputs[1].pow(2).sum()).backward();
    const std::vector<at::Tensor> actual{product.gate->parameters()[0].grad(),
                                         product.up->parameters()[0].grad()};
    product.zero_grad();
    const auto whole = with_router(product, input.detach());
    (whole[0].pow(2).sum() + whole[1].pow(2).sum()).backward();
    EXPECT_TRUE(at::allclose(actual[0], product.gate->parameters()[0].grad(), 1e-12, 1e-14));
    EXPECT_EQ(actual[1].defined(), carries);
    if (carries) {
      EXPECT_TRUE(at::allclose(actual[1], product.up->parameters()[0].grad(), 1e-12, 1e-14));
    }
  }
}

TEST(Tiled, HasNothingToDoWhereOnlyADroppedOutputIsUsed) {
  Product product;
  const at::Tensor input = normal({4, kWidth}, 1, at::kDouble).requires_grad_(true);
  const auto outputs =
      tiled([&](const at::Tensor& rows) { return with_router(product, rows); },
            product.parameters(), input, {.tiles = 2, .carries_all_outputs = false});
  outputs[1].sum().backward();
  EXPECT_FALSE(input.grad().defined());
}

TEST(Tiled, RefusesLessThanOneTileAndMoreThanRows) {
  Product product;
  const auto refusal = [&](std::int64_t tiles, at::IntArrayRef shape) -> std::string {
    try {
      tiled(forward_of(product), product.parameters(), normal(shape, 1, at::kDouble),
            {.tiles = tiles});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const std::int64_t tiles : {0L, -1L, 9L}) {
    EXPECT_THAT(refusal(tiles, {2, 4, kWidth}), HasSubstr("1 to 8, the rows of the input"));
    EXPECT_THAT(refusal(tiles, {2, 4, kWidth}), HasSubstr(std::to_string(tiles)));
  }
  EXPECT_EQ(refusal(8, {2, 4, kWidth}), "");
}

/// In `tiles` pieces along the sequence, with `slices` of the gradients.
Trained train_chunked(at::IntArrayRef shape, std::int64_t tiles, TileSlices slices, TileCut cut) {
  Product module;
  return train(module, normal(shape, 1, at::kDouble),
               TilingOptions{.tiles = tiles, .cut = cut, .slices = slices});
}

bool is_as_untiled(at::IntArrayRef shape, const Trained& actual) {
  Product whole;
  const Trained expected = train(whole, normal(shape, 1, at::kDouble), std::nullopt);
  bool is_right = at::allclose(actual.input_gradient, expected.input_gradient, 1e-12, 1e-14);
  for (const auto& [name, gradient] : expected.gradients) {
    is_right = is_right && at::allclose(actual.gradients.at(name), gradient, 1e-12, 1e-14);
  }
  EXPECT_TRUE(at::allclose(actual.output, expected.output, 1e-12, 1e-14));
  return is_right;
}

TEST(ChunkedTiles, AreRightWhereGradientsAreCutAsTheInputIs) {
  for (const std::int64_t tiles : {1, 2, 3, 4, 9}) {
    for (const TileCut cut : {TileCut::chunked_rows, TileCut::chunked_sequence}) {
      EXPECT_TRUE(
          is_as_untiled({2, 9, kWidth}, train_chunked({2, 9, kWidth}, tiles, TileSlices::own, cut)))
          << tiles;
    }
  }
}

TEST(ChunkedTiles, AreRightWithSlicesOfTheBufferForOneSequence) {
  for (const TileSlices slices : {TileSlices::fixed_step, TileSlices::cumulative_step}) {
    for (const std::int64_t tiles : {2, 3, 4}) {
      EXPECT_TRUE(is_as_untiled(
          {1, 9, kWidth}, train_chunked({1, 9, kWidth}, tiles, slices, TileCut::chunked_sequence)));
    }
  }
}

TEST(ChunkedTiles, AreWrongWithSlicesOfTheBufferForTwoSequences) {
  for (const TileSlices slices : {TileSlices::fixed_step, TileSlices::cumulative_step}) {
    EXPECT_FALSE(is_as_untiled(
        {2, 9, kWidth}, train_chunked({2, 9, kWidth}, 3, slices, TileCut::chunked_sequence)));
    EXPECT_TRUE(is_as_untiled({2, 9, kWidth},
                              train_chunked({2, 9, kWidth}, 3, slices, TileCut::chunked_rows)));
  }
}

/// The tiles that backward reaches.
std::vector<std::int64_t> turns_of(TilingOptions tiling, at::IntArrayRef shape) {
  std::vector<std::int64_t> turns;
  tiling.before_tile = [&](const TileTurn& turn) {
    EXPECT_EQ(turn.asked, tiling.tiles);
    EXPECT_EQ(turn.parameters->size(), 4);
    turns.push_back(turn.pieces);
  };
  Product module;
  train(module, normal(shape, 1, at::kDouble), tiling);
  return turns;
}

TEST(ChunkedTiles, MayBeFewerThanAskedFor) {
  const TilingOptions chunked{.tiles = 4, .cut = TileCut::chunked_rows};
  EXPECT_THAT(turns_of(chunked, {1, 9, kWidth}), ::testing::ElementsAre(3, 3, 3));
  EXPECT_THAT(turns_of({.tiles = 4}, {1, 9, kWidth}), ::testing::ElementsAre(4, 4, 4, 4));
}

TEST(ChunkedTiles, AreRefusedWhereThatIsAskedFor) {
  const TilingOptions tiling{.tiles = 4, .cut = TileCut::chunked_rows, .refuses_fewer_tiles = true};
  Product module;
  try {
    train(module, normal({1, 9, kWidth}, 1, at::kDouble), tiling);
    FAIL() << "nothing was refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("the input gives 3 tiles where 4 were asked for"));
  }
  EXPECT_NO_THROW(train(module, normal({1, 8, kWidth}, 1, at::kDouble), tiling));
}

/// The output does not depend on the rows: it is a parameter, once for each.
struct IgnoresRows : Module {
  IgnoresRows() : token(register_parameter("token", normal({1, kWidth}, 2, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& rows) override { return token.expand_as(rows); }

  at::Tensor token;
};

TEST(AnInputThatNoTileUses, HasAGradientOfZeros) {
  IgnoresRows module;
  const Trained trained = train(module, normal({4, kWidth}, 1, at::kDouble),
                                TilingOptions{.tiles = 2, .backward = TileBackward::grad_but_last});
  EXPECT_TRUE(at::equal(trained.input_gradient, at::zeros_like(trained.output)));
}

TEST(AnInputThatNoTileUses, IsAnErrorOfTorchsWhereNobodyLooksBeforeItsGradientIsCopied) {
  IgnoresRows module;
  const TilingOptions unguarded{
      .tiles = 2, .backward = TileBackward::grad_but_last, .guards_input_gradient = false};
  try {
    train(module, normal({4, kWidth}, 1, at::kDouble), unguarded);
    FAIL() << "a gradient that is not there was copied";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Expected a proper Tensor but got None"));
  }
}

TEST(AnInputThatNoTileUses, IsNotLookedAtInTheLastTile) {
  IgnoresRows module;
  const TilingOptions unguarded{
      .tiles = 1, .backward = TileBackward::grad_but_last, .guards_input_gradient = false};
  EXPECT_NO_THROW(train(module, normal({4, kWidth}, 1, at::kDouble), unguarded));
}

/// A sum of two parameters, for which autograd creates one gradient.
struct Summed : Module {
  Summed()
      : one(register_parameter("one", normal({kWidth}, 2, at::kDouble))),
        other(register_parameter("other", normal({kWidth}, 3, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& rows) override { return rows * (one + other); }

  at::Tensor one, other;
};

TEST(GradientsThatAreOneTensor, AddToEachOtherUnlessTheFirstIsCloned) {
  for (const bool clones : {false, true}) {
    Summed whole, in_tiles;
    const Trained expected = train(whole, small_numbers({8, kWidth}, 1), std::nullopt);
    const Trained actual = train(
        in_tiles, small_numbers({8, kWidth}, 1),
        TilingOptions{
            .tiles = 4, .backward = TileBackward::grad_but_last, .clones_first_gradient = clones});
    EXPECT_EQ(at::allclose(actual.gradients.at("one"), expected.gradients.at("one")), clones);
    EXPECT_EQ(at::allclose(actual.gradients.at("other"), expected.gradients.at("other")), clones);
  }
}

}  // namespace
}  // namespace lockstep
