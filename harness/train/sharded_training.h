#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "harness/train/micro_batches.h"
#include "harness/train/sharded_model.h"

namespace lockstep {

/// What is true of a correct step of a sharded model: gradients at `reduced` and parameters at
/// `stepped` equal the reference, and ranks finish. Shards have no copies that could agree.
std::vector<Claim> sharded_claims();

/// What a cell of these claims declares whose ranks finish with wrong gradients, and parameters
/// with them.
Expectation expect_wrong_shards(OutcomeKind outcome = OutcomeKind::agree_but_wrong);
/// Gradients are right and the optimizer's step is not: those of the next step are wrong.
Expectation expect_wrong_updates(const Cell& cell);

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
