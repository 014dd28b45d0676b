#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/train/module.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"
#include "harness/train/sharded_model.h"

namespace lockstep {

/// The training step of scenarios about sharded engines.
struct ShardedStep {
  Module& model;
  ShardedModel* sharded = nullptr;  ///< null in the reference
  /// The loss (0-dim) of a rank's own batch.
  std::function<at::Tensor(int owner)> loss_of;
  /// The optimizer's.
  std::function<void()> step;
};

/// Trains: one backward a step. Gradients are those of the shards; in the reference they are the
/// mean over the ranks. Observes gradients at `reduced` and parameters at `stepped`.
void train_sharded_steps(Rank& rank, const ShardedStep& step);

/// Normal numbers of `shape` for the batch of `owner` in this step, perturbed where the reference
/// is; `base` tells inputs from targets.
at::Tensor sharded_input(Rank& rank, int owner, std::uint64_t base, at::IntArrayRef shape);

/// What is true of a correct step: gradients and parameters equal the reference, and ranks finish.
/// Of shards that nobody else holds no agreement can be claimed.
std::vector<Claim> sharded_claims();

/// What a cell of these claims declares: gradients are wrong, and parameters with them.
Expectation expect_wrong_gradients();
/// Gradients are right and the optimizer's step is not: those of the next step are wrong.
Expectation expect_wrong_updates(const Cell& cell);

}  // namespace lockstep
