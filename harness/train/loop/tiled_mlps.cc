#include "harness/train/loop/tiled_mlps.h"

#include "harness/train/autograd/tile_weights.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/optim/mixed_precision.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kMlpSizes;

FlatStrategy flat_strategy(const Rank& rank) {
  if (rank.has("strategy", "no-shard")) return FlatStrategy::no_shard;
  return rank.has("strategy", "shard-grad-op") ? FlatStrategy::shard_grad_op
                                               : FlatStrategy::full_shard;
}

FullyShardOptions fully_shard_options(const Cell& cell) {
  if (!is_mixed(cell)) return {};
  return {.param_dtype = dtype_of(cell), .reduce_dtype = wide_dtype_of(cell)};
}

}  // namespace

at::ScalarType wide_dtype_of(const Cell& cell) {
  return is_mixed(cell) ? at::kFloat : dtype_of(cell);
}

TiledMlps::TiledMlps(Rank& rank)
    : rank_(rank),
      model_(kMlpSizes, cpu_generator(rank.seed(0))),
      options_(training_options(rank)) {
  const Cell& cell = rank.cell();
  model_.to(wide_dtype_of(cell));
  model_.to(rank.device());
  options_.reference_adds_gradients = is_mixed(cell);
  if (!rank.is_reference() || !is_mixed(cell)) return;
  copy_.emplace(kMlpSizes, cpu_generator(rank.seed(0)));
  copy_->to(dtype_of(cell));
  copy_->to(rank.device());
  compute_with(*copy_, model_);
}

void TiledMlps::tile(const TilingOptions& tiling) {
  for (Module* mlp : model_.mlps()) tile_calls(*mlp, tiling);
}

void TiledMlps::weigh(
    const std::function<double(std::int64_t batch, std::int64_t tile)>& weight_of) {
  for (Module* mlp : (copy_ ? *copy_ : model_).mlps()) {
    weigh_tiles(*mlp, rank_.number("tiles"),
                [this, weight_of](std::int64_t tile) { return weight_of(micro_batch_, tile); });
  }
}

void TiledMlps::shard() {
  ProcessGroup& group = rank_.group();
  if (rank_.has("engine", "zero")) {
    engine_ = std::make_unique<Zero>(model_, group, zero_options(rank_));
    return;
  }
  const std::vector<Module*> wrapped = model_.at_level(rank_.text("wrapped"));
  if (rank_.has("engine", "fsdp1")) {
    engine_ = std::make_unique<FlatShard>(model_, wrapped, group, flat_strategy(rank_));
  } else {
    engine_ =
        std::make_unique<FullyShard>(model_, wrapped, group, fully_shard_options(rank_.cell()));
  }
}

void TiledMlps::train(const std::vector<std::int64_t>& rows, CallSite site) {
  train(
      [&](const MicroBatch& batch, const Module::Forward& forward) {
        return squared_error(rank_, batch, forward, rows, kMlpSizes.inputs, 1);
      },
      site);
}

void TiledMlps::train(const Loss& loss, CallSite site) {
  Training training(rank_, model_, options_, engine_.get());
  const auto forward = [&](const at::Tensor& input) {
    return copy_ ? (*copy_)(input) : training.forward(input);
  };
  const auto loss_of = [&](const MicroBatch& batch) {
    micro_batch_ = batch.index;
    return loss(batch, forward);
  };
  training.run({.loss = loss_of}, site);
}

void sync_in_last_tile(TilingOptions& tiling, const std::unique_ptr<ShardedModel>& engine) {
  tiling.before_tile = [&engine](const TileTurn& turn) {
    engine->set_requires_gradient_sync(is_last(turn));
  };
}

}  // namespace lockstep
