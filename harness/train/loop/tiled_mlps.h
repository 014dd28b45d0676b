#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/batches.h"
#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// The training of scenarios about tiled MLPs and the engines around them: MlpLayers of the default
/// sizes, which a body tiles, shards and trains. Its reference is neither tiled nor sharded.
///
/// With dtype=bfloat16 only the model computes in bfloat16: parameters and reduced gradients are
/// float32. The reference computes with a copy of the model.
///
/// Keeps a reference to `rank`.
class TiledMlps {
 public:
  /// A loss (0-dim) that calls the model through `forward`.
  using Loss = std::function<at::Tensor(const MicroBatch& batch, const Module::Forward& forward)>;

  explicit TiledMlps(Rank& rank);

  /// The trained model.
  MlpLayers& model() { return model_; }
  /// `training_options` of the cell; a body may change them.
  TrainingOptions& options() { return options_; }
  /// Null until `shard`. Callbacks of tiles keep a reference to this pointer: they are made before
  /// it is set and called afterwards.
  const std::unique_ptr<ShardedModel>& engine() const { return engine_; }

  /// Tiles all later calls of the MLPs.
  void tile(const TilingOptions& tiling);

  /// The reference with the predicted formula: from now on, gradients of tile `tile` in micro-batch
  /// `batch` for parameters of its MLP count `weight_of(batch, tile)` times.
  void weigh(const std::function<double(std::int64_t batch, std::int64_t tile)>& weight_of);

  /// Shards the model, by these conditions:
  ///   engine         fsdp2, fsdp1, zero
  ///   wrapped        the modules that FSDP2 and FSDP1 wrap: mlp, layer, root
  ///   strategy       of FSDP1: full-shard (the default), shard-grad-op, no-shard
  ///   stage, bucket  of ZeRO: see `zero_options`
  void shard();

  /// Trains all steps; without `shard`, under DDP. The loss is the mean squared error on normal
  /// numbers [rows..., inputs].
  void train(const std::vector<std::int64_t>& rows, CallSite site = CallSite::here());
  void train(const Loss& loss, CallSite site = CallSite::here());

 private:
  Rank& rank_;
  MlpLayers model_;
  std::optional<MlpLayers> copy_;  ///< of a reference that computes in bfloat16
  TrainingOptions options_;
  std::unique_ptr<ShardedModel> engine_;
  std::int64_t micro_batch_ = 0;
};

/// Whether parameters and reduced gradients have another dtype than the one computed with.
inline bool is_mixed(const Cell& cell) { return dtype_of(cell) == at::kBFloat16; }

/// The dtype of parameters and of reduced gradients: the cell's, or float32 for bfloat16.
at::ScalarType wide_dtype_of(const Cell& cell);

inline bool is_last(const TileTurn& turn) { return turn.tile + 1 == turn.pieces; }

/// Changes `tiling` so that only the last tile's backward reduces gradients. Keeps a reference to
/// `engine`, which must exist during backward.
void sync_in_last_tile(TilingOptions& tiling, const std::unique_ptr<ShardedModel>& engine);

}  // namespace lockstep
