#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/train/nn/module.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

using MakeSharded = std::function<std::unique_ptr<ShardedModel>(
    Rank& rank, Module& model, const std::vector<Module*>& wrapped)>;

/// The training for the words of the cell's variant, with the engine created by `make`.
void train_sharded(Rank& rank, const MakeSharded& make);

}  // namespace lockstep
