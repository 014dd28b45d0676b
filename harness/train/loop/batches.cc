#include "harness/train/loop/batches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

namespace lockstep {

at::ScalarType dtype_of(const Cell& cell) {
  if (is_set(cell, "dtype", "float64")) return at::kDouble;
  if (is_set(cell, "dtype", "bfloat16")) return at::kBFloat16;
  return at::kFloat;
}

/// Ten owners use the hundred seeds of a step; the next ten begin far above all bases.
std::uint64_t MicroBatch::seed(std::uint64_t base) const {
  constexpr std::int64_t kOwners = 10;
  constexpr std::int64_t kApart = 1'000'000'000;
  return base + static_cast<std::uint64_t>(owner / kOwners * kApart + step * 100 +
                                           owner % kOwners * 10 + index);
}

at::Tensor normal_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                        at::IntArrayRef shape) {
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(base)));
  return rank.input(at::randn(shape, generator, at::TensorOptions()).to(dtype_of(rank.cell())));
}

at::Tensor whole_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                       at::IntArrayRef shape) {
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(base)));
  const at::Tensor drawn = at::randint(-1, 2, shape, generator, at::TensorOptions());
  return rank.input(drawn.to(dtype_of(rank.cell())));
}

Regression regression_of_rank(int owner, std::int64_t inputs, std::int64_t outputs) {
  return {.rows = {2 + owner},
          .inputs = inputs,
          .outputs = outputs,
          .inputs_base = 1000,
          .targets_base = 500'000};
}

at::Tensor squared_error(Rank& rank, const MicroBatch& batch, const Regression& regression,
                         const Module::Forward& forward) {
  const auto shape = [&](std::int64_t last) {
    std::vector<std::int64_t> sizes = regression.rows;
    sizes.push_back(last);
    return sizes;
  };
  const at::Tensor output =
      forward(normal_input(rank, batch, regression.inputs_base, shape(regression.inputs)));
  const at::Tensor target =
      normal_input(rank, batch, regression.targets_base, shape(regression.outputs));
  return (output - target).pow(2).mean();
}

at::Tensor squared_error(Rank& rank, const MicroBatch& batch, const Module::Forward& forward,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs) {
  return squared_error(rank, batch, Regression{rows, inputs, outputs}, forward);
}

at::Tensor squared_error(Rank& rank, const MicroBatch& batch, Module& model,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs) {
  const auto forward = [&model](const at::Tensor& input) { return model(input); };
  return squared_error(rank, batch, Regression{rows, inputs, outputs}, forward);
}

ImageText image_text_of(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        std::int64_t rows, std::int64_t length) {
  const at::Generator texts = cpu_generator(rank.seed(batch.seed(2'000'000)));
  return {normal_input(rank, batch, 1'000'000, {rows, sizes.channels, sizes.height, sizes.width}),
          at::randint(sizes.vocabulary, {rows, length}, texts, at::kLong).to(rank.device())};
}

}  // namespace lockstep
