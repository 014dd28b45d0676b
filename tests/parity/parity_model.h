#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// An MLP and a parameter of its own: x + mlp(norm(x)) * scale.
struct ParityLayer : Module {
  ParityLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width]

  std::shared_ptr<LayerNorm> norm;
  std::shared_ptr<SwiGlu> mlp;
  at::Tensor scale;
};

/// Model of the parity scenarios about sharded models; in Python, `model_of` of
/// tests/parity/sharded_training.py creates it. The words of the cell's variant choose its sizes,
/// its dtype, and the frozen, skipped, checkpointed and tiled parts. The default sizes are uneven:
/// 5 and 7 rows, cut for 2 and 3 ranks, and tensors of a single row.
struct ParityModel : Module {
  static constexpr std::int64_t kTiles = 2;

  explicit ParityModel(const Rank& rank);
  at::Tensor forward(const at::Tensor& input) override;  ///< a batch of `parity_input` to [..., 1]

  void tile_mlps(const TilingOptions& tiling);

  bool checkpoints, checkpoints_reentrant;
  bool skips_a_layer;  ///< the second one, in later forwards
  std::shared_ptr<Linear> embedding, head;
  std::vector<std::shared_ptr<ParityLayer>> layers;
};

/// This rank's batch, [2 + rank, 3, inputs].
at::Tensor parity_input(const Rank& rank, std::int64_t step, std::int64_t micro_batch);

}  // namespace lockstep
