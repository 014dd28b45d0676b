#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "harness/train/loop/micro_batches.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

using ShardedLoss = std::function<at::Tensor(const MicroBatch& batch)>;

/// Trains `model` as `train_in_micro_batches` does, which is its reference: gradients of the
/// micro-batches of a step add up, each divided by their number, then SGD on the shards. With
/// `no_sync` all micro-batches but the last leave their gradients whole, on the rank.
void train_sharded(Rank& rank, ShardedModel& model, const MicroBatchOptions& options,
                   const ShardedLoss& loss_of);

/// The same, and `update` in the place of SGD.
void train_sharded(Rank& rank, ShardedModel& model, const MicroBatchOptions& options,
                   const ShardedLoss& loss_of, const std::function<void()>& update);

}  // namespace lockstep
