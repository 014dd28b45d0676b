// The training of fully_shard_parity with FlatShard, which tests/parity/flat_shard_parity.py runs
// with Python's FullyShardedDataParallel.

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/flat_shard.h"
#include "tests/parity/parity_scenario.h"
#include "tests/testbed/fully_shard_parity.h"

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 3> kStrategies{"full-shard", "shard-grad-op", "no-shard"};
constexpr std::array<std::string_view, 3> kLevels{"mlp-and-layer", "layer", "root"};
constexpr std::string_view kFrozenLayer = "frozen-layer";  // a root must be frozen as a whole
constexpr std::array<std::string_view, 15> kFlags{
    "",
    "float64",
    "no-sync",
    "two-backwards",
    kFrozenLayer,
    "skips-a-layer",
    "checkpoint",
    "checkpoint-reentrant",
    "evaluates",
    "two-forwards",
    "tiles-per-tile",
    "tiles-set-aside",
    "tiles-but-last",
    "tiles-explicit",
    "tiles-around",
};

std::unique_ptr<ShardedModel> flat_shard(Rank& rank, Module& model,
                                         const std::vector<Module*>& wrapped) {
  FlatStrategy strategy = FlatStrategy::full_shard;
  if (rank.has("shard-grad-op")) strategy = FlatStrategy::shard_grad_op;
  if (rank.has("no-shard")) strategy = FlatStrategy::no_shard;
  return std::make_unique<FlatShard>(model, wrapped, rank.group(), strategy);
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string_view strategy : kStrategies) {
    for (const std::string_view level : kLevels) {
      for (const std::string_view flag : kFlags) {
        if (level == "root" && flag == kFrozenLayer) continue;
        all.push_back(variant_of_words({strategy, level, flag}));
      }
    }
  }
  return all;
}

}  // namespace

Scenario flat_shard_parity() {
  return parity_scenario(
      "A small training in combinations of what FullyShardedDataParallel can be asked for.",
      variants(), [](Rank& rank) { train_sharded(rank, flat_shard); });
}

}  // namespace lockstep
