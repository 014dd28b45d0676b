#include "harness/train/autograd/gradient_accumulator.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "harness/train/nn/swiglu.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

constexpr std::int64_t kRowWidth = 5;
constexpr std::int64_t kRows = 24;

SwiGlu mlp() {
  SwiGlu made(kRowWidth, 7, cpu_generator(3));
  made.to(at::kDouble);
  return made;
}

/// Each parameter's gradient from the rows of one tile.
Tensors gradients_of_tile(std::int64_t tile, std::int64_t rows) {
  SwiGlu module = mlp();
  const at::Tensor input = normal({kRows, kRowWidth}, 1, at::kDouble).narrow(0, tile * rows, rows);
  module(input).backward(normal({kRows, kRowWidth}, 2, at::kDouble).narrow(0, tile * rows, rows));
  Tensors gradients;
  for (const at::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

Tensors priors() {
  Tensors priors;
  std::uint64_t seed = 50;
  for (const at::Tensor& parameter : mlp().parameters()) {
    priors.push_back(normal(parameter.sizes(), seed++, at::kDouble));
  }
  return priors;
}

/// The resulting `.grad` of tiles whose gradients the hooks accumulate, on top of `priors`.
Tensors accumulated(std::int64_t tiles, GradientAccumulatorOptions options) {
  options.dtype = at::kDouble;
  SwiGlu module = mlp();
  const Tensors before = priors();
  const Tensors parameters = module.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = before[i].clone();
  }
  TilingOptions tiling{.tiles = tiles, .cut = TileCut::chunked_rows};
  accumulate_by_hooks(tiling, options);
  const at::Tensor input = normal({kRows, kRowWidth}, 1, at::kDouble).requires_grad_(true);
  tiled(module, input, tiling).backward(normal({kRows, kRowWidth}, 2, at::kDouble));
  Tensors gradients;
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

/// Expects `prior` times the previous gradient, plus tile i's gradient times weight_of(i).
void expect_law(const Tensors& actual, std::int64_t tiles, double prior,
                const std::function<double(std::int64_t)>& weight_of) {
  Tensors expected = priors();
  for (at::Tensor& gradient : expected) gradient *= prior;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const Tensors own = gradients_of_tile(tile, kRows / tiles);
    for (std::size_t i = 0; i < own.size(); ++i) expected[i] += own[i] * weight_of(tile);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], 1e-12, 1e-12)) << tiles << " tiles, " << i;
  }
}

class Tiles : public testing::TestWithParam<std::int64_t> {};

TEST_P(Tiles, OfThePublishedHooksHaveTheLaw) {
  const auto tiles = GetParam();
  const auto n = static_cast<double>(tiles);
  expect_law(accumulated(tiles, {}), tiles, 2,
             [&](std::int64_t tile) { return 2 / n * static_cast<double>(tile + 1); });
}

TEST_P(Tiles, OfHooksThatAreRemovedCountOnce) {
  const auto n = static_cast<double>(GetParam());
  expect_law(accumulated(GetParam(), {.removes_hooks = true}), GetParam(), 2,
             [&](std::int64_t /*tile*/) { return 2 / n; });
}

TEST_P(Tiles, OfHooksThatDoNotDivideAreStacked) {
  expect_law(accumulated(GetParam(), {.scales = false}), GetParam(), 2,
             [](std::int64_t tile) { return 2 * static_cast<double>(tile + 1); });
}

TEST_P(Tiles, OfHooksThatOnlyDivideAreASharePerTile) {
  const auto n = static_cast<double>(GetParam());
  expect_law(accumulated(GetParam(), {.removes_hooks = true, .hand_over = HandOver::returned}),
             GetParam(), 1, [&](std::int64_t /*tile*/) { return 1 / n; });
}

TEST_P(Tiles, OfAHookThatReturnsNothingHaveTheLastOnTop) {
  const auto tiles = GetParam();
  const auto n = static_cast<double>(tiles);
  expect_law(accumulated(tiles, {.hand_over = HandOver::set}), tiles, 1, [&](std::int64_t tile) {
    return static_cast<double>(tile + 1) / n + (tile + 1 == tiles ? 1 : 0);
  });
}

TEST_P(Tiles, OfMendedHooksAreTheSum) {
  expect_law(accumulated(GetParam(),
                         {.removes_hooks = true, .scales = false, .hand_over = HandOver::returned}),
             GetParam(), 1, [](std::int64_t /*tile*/) { return 1; });
}

INSTANTIATE_TEST_SUITE_P(GradientAccumulator, Tiles, testing::Values(1, 2, 3, 4, 8));

/// 24 rows in tiles of 4, with 7 tiles requested: 6.
TEST(GradientAccumulator, LosesWhatWasThereWhereTheLastTileNeverComes) {
  constexpr std::int64_t kAsked = 7;
  const auto once = [](std::int64_t /*tile*/) { return 1; };
  expect_law(accumulated(kAsked, {}), 6, 0, once);
  expect_law(accumulated(kAsked, {.removes_hooks = true,
                                  .scales = false,
                                  .hand_over = HandOver::returned,
                                  .counts_pieces = true}),
             6, 1, once);
}

TEST(GradientAccumulator, LeavesNoHookBehind) {
  SwiGlu module = mlp();
  const Tensors parameters = module.parameters();
  { GradientAccumulator(parameters, {}).install_hooks({0, 2, 2, &parameters}); }
  module(normal({2, kRowWidth}, 1, at::kDouble)).backward(normal({2, kRowWidth}, 2, at::kDouble));
  SwiGlu plain = mlp();
  plain(normal({2, kRowWidth}, 1, at::kDouble)).backward(normal({2, kRowWidth}, 2, at::kDouble));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(parameters[i].grad().equal(plain.parameters()[i].grad()));
  }
}

}  // namespace
}  // namespace lockstep
