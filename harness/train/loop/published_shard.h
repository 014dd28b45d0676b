#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "harness/train/loop/batches.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// A rank's part of a step's data, float32 [rows, 4] each.
struct PublishedShard {
  at::Tensor input;
  at::Tensor target;
};

/// Draws a shard as the toy script of SchmiedmayerLab's pull request #49 does, with CUDA's random
/// numbers: step s (from 0) seeds the inputs with 1000 + s and the targets with s. The owner's rank
/// is added to its inputs, so that shards differ. Both are perturbed in a perturbed reference.
PublishedShard published_shard(Rank& rank, const MicroBatch& batch, std::int64_t rows = 4);

/// The script's loss (0-dim).
at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target);

}  // namespace lockstep
