#include "harness/train/autograd/tile_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// `forward` of `rows`. The gradients of `module`'s parameters are multiplied by `weight`, that of
/// `rows` is unchanged.
at::Tensor weighted(const Module& module, const at::Tensor& rows, const Module::Forward& forward,
                    double weight) {
  const at::Tensor by_parameters = forward(rows.detach());
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(false);
  const at::Tensor by_rows = forward(rows);
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
  return by_rows + (by_parameters - by_parameters.detach()) * weight;
}

}  // namespace

void weigh_tiles(Module& module, std::int64_t tiles,
                 std::function<double(std::int64_t tile)> weight_of) {
  module.wrap_calls([&module, tiles, weight_of = std::move(weight_of)](
                        const at::Tensor& input, const Module::Forward& forward) {
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& rows : input.chunk(tiles, 1)) {
      const auto tile = static_cast<std::int64_t>(outputs.size());
      outputs.push_back(weighted(module, rows, forward, weight_of(tile)));
    }
    return at::cat(outputs, 1);
  });
}

}  // namespace lockstep
