#include "tests/parity/parity_model.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <optional>
#include <string>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/sharded/tile_readiness.h"
#include "tests/parity/parity_scenario.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 4;
constexpr int kLayers = 3;

/// Tiling of the MLPs; absent: none.
std::optional<TilingOptions> tiling_of(const Rank& rank) {
  TilingOptions tiling{.tiles = ParityModel::kTiles};
  if (rank.has("tiles-per-tile")) return tiling;
  if (rank.has("tiles-ready")) {
    tell_readiness(tiling);
    return tiling;
  }
  if (rank.has("tiles-set-aside")) {
    tiling.accumulation = TileAccumulation::set_aside;
    return tiling;
  }
  tiling.backward = TileBackward::grad_but_last;
  if (rank.has("tiles-but-last")) return tiling;
  tiling.backward = TileBackward::explicit_inputs;
  if (rank.has("tiles-explicit")) return tiling;
  return std::nullopt;
}

}  // namespace

ParityLayer::ParityLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator)
    : norm(register_module("norm", std::make_shared<LayerNorm>(width))),
      mlp(register_module("mlp", std::make_shared<SwiGlu>(width, hidden, generator))),
      scale(register_parameter("scale", at::ones({1}))) {}

at::Tensor ParityLayer::forward(const at::Tensor& input) {
  return input + (*mlp)((*norm)(input)) * scale;
}

ParityModel::ParityModel(const Rank& rank)
    : checkpoints(rank.has("checkpoint")),
      checkpoints_reentrant(rank.has("checkpoint-reentrant")),
      skips_a_layer(rank.has("skips-a-layer")) {
  const at::Generator generator = cpu_generator(rank.seed(7));
  const std::int64_t width = rank.has("even") ? 6 : 5;
  const std::int64_t hidden = rank.has("even") ? 12 : 7;
  embedding = register_module("embedding", std::make_shared<Linear>(kInputs, width, generator));
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(register_module("layers." + std::to_string(i),
                                     std::make_shared<ParityLayer>(width, hidden, generator)));
  }
  head = register_module("head", std::make_shared<Linear>(width, 1, generator));
  if (rank.has("float64")) to(at::kDouble);
  if (rank.has("frozen-embedding")) embedding->freeze();
  if (rank.has("frozen-layer")) layers[1]->freeze();
  if (const auto tiling = tiling_of(rank)) tile_mlps(*tiling);
}

at::Tensor ParityModel::forward(const at::Tensor& input) {
  at::Tensor hidden = (*embedding)(input);
  for (const auto& layer : layers) {
    if (skips_a_layer && layer == layers[1]) continue;
    const SegmentOfOne segment = [layer](const at::Tensor& rows) { return (*layer)(rows); };
    if (checkpoints_reentrant) {
      hidden = checkpoint_reentrant(segment, hidden);
    } else {
      hidden = checkpoints ? checkpoint(segment, hidden) : segment(hidden);
    }
  }
  return (*head)(hidden);
}

void ParityModel::tile_mlps(const TilingOptions& tiling) {
  for (const auto& layer : layers) tile_calls(*layer->mlp, tiling);
}

at::Tensor parity_input(const Rank& rank, std::int64_t step, std::int64_t micro_batch) {
  const std::int64_t seed = 1000 * step + 100 * micro_batch + rank.rank();
  return at::randn({2 + rank.rank(), 3, kInputs}, cpu_generator(rank.seed(seed)),
                   at::TensorOptions());
}

}  // namespace lockstep
