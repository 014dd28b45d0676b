// The small training that tests/parity/fully_shard_parity.py runs with Python's fully_shard. Both
// sides must agree in outcome, collectives and bits. The name of a variant is its words, joined by
// "+"; the Python side reads them from the folders of a run.

#include "tests/testbed/fully_shard_parity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/fully_shard.h"
#include "tests/parity/parity_model.h"
#include "tests/parity/parity_scenario.h"

namespace lockstep {

namespace {

/// Wrapped modules in addition to the root.
constexpr std::array<std::string_view, 4> kLevels{"mlp", "layer", "mlp-and-layer", "root"};

/// Options in addition to the level. Empty: the defaults.
constexpr std::array<std::string_view, 23> kFlags{
    "",
    "even",
    "bfloat16",
    "bfloat16+no-sync",
    "float64",
    "no-sync",
    "two-backwards",
    "no-reshard-after-forward",
    "reshard-root",
    "no-reshard-after-backward+two-backwards",
    "frozen-embedding",
    "skips-a-layer",
    "checkpoint",
    "checkpoint-reentrant",
    "evaluates",
    "two-forwards",
    "tiles-per-tile",
    "tiles-set-aside",
    "tiles-but-last",
    "tiles-explicit",
    "tiles-but-last+bfloat16+two-backwards",
    "tiles-around",
    "uses-released",
};

std::vector<Module*> wrapped_of(const Rank& rank, const ParityModel& model) {
  std::vector<Module*> wrapped;
  for (const auto& layer : model.layers) {
    if (rank.has("mlp") || rank.has("mlp-and-layer")) wrapped.push_back(layer->mlp.get());
    if (rank.has("layer") || rank.has("mlp-and-layer")) wrapped.push_back(layer.get());
  }
  return wrapped;
}

FullyShardOptions options_of(const Rank& rank) {
  FullyShardOptions options;
  if (rank.has("no-reshard-after-forward")) options.reshard_after_forward = false;
  if (rank.has("reshard-root")) options.reshard_after_forward = true;
  if (rank.has("bfloat16")) {
    options.param_dtype = at::kBFloat16;
    options.reduce_dtype = at::kFloat;
  }
  return options;
}

void backward(Rank& rank, ShardedModel& model, std::int64_t micro_batch) {
  at::Tensor input = parity_input(rank, rank.step(), micro_batch);
  if (rank.has("float64")) input = input.to(at::kDouble);
  if (rank.has("evaluates")) {
    const at::NoGradGuard no_grad;
    model.forward(input);
  }
  at::Tensor loss = model.forward(input).pow(2).mean();
  if (rank.has("two-forwards")) loss = loss + model.forward(input * 2).pow(2).mean();
  loss.backward();
  rank.observer().begin_micro_batch(micro_batch);
  rank.observe_gradients(Phase::pre_step, model);
}

std::vector<NamedTensor> copies_of(const Module& model) {
  std::vector<NamedTensor> copies;
  for (const NamedTensor& entry : model.named_parameters()) {
    copies.push_back({entry.name, entry.tensor.detach().clone()});
  }
  return copies;
}

/// The total that the shards must add up to.
void observe_whole(Rank& rank, std::vector<NamedTensor> whole) {
  for (NamedTensor& entry : whole) entry.name = "whole." + entry.name;
  rank.observer().observe(Phase::pre_forward, Kind::parameter, whole);
}

std::unique_ptr<ShardedModel> fully_shard(Rank& rank, Module& model,
                                          const std::vector<Module*>& wrapped) {
  return std::make_unique<FullyShard>(model, wrapped, rank.group(), options_of(rank));
}

void set_reshard_after_backward(ShardedModel& sharded, bool reshards) {
  auto* engine = dynamic_cast<FullyShard*>(&sharded);
  if (engine != nullptr) engine->set_reshard_after_backward(reshards);
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string_view level : kLevels) {
    for (const std::string_view flags : kFlags) {
      all.push_back(variant_of_words({level, flags}));
    }
  }
  return all;
}

}  // namespace

void train_sharded(Rank& rank, const MakeSharded& make) {
  rank.at_branch();
  ParityModel model(rank);
  const std::vector<NamedTensor> whole = copies_of(model);
  const std::unique_ptr<ShardedModel> sharded = make(rank, model, wrapped_of(rank, model));
  if (rank.has("tiles-around")) model.tile_mlps({.tiles = ParityModel::kTiles});
  const at::Tensor weight = model.layers[0]->mlp->parameters()[0];
  Sgd optimizer(sharded->parameters(), /*learning_rate=*/0.1);
  const bool accumulates = rank.has("no-sync") || rank.has("two-backwards");

  rank.train([&](std::int64_t step) {
    if (step == 1) {
      observe_whole(rank, whole);
      rank.observe_parameters(Phase::pre_forward, *sharded);
    }
    sharded->zero_grad();
    if (accumulates) {
      sharded->set_requires_gradient_sync(!rank.has("no-sync"));
      set_reshard_after_backward(*sharded, !rank.has("no-reshard-after-backward"));
      backward(rank, *sharded, 0);
      sharded->set_requires_gradient_sync(true);
      set_reshard_after_backward(*sharded, true);
    }
    backward(rank, *sharded, 1);
    if (rank.has("uses-released")) at::mm(at::ones({1, weight.size(0)}), weight);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, *sharded);
  });
}

Scenario fully_shard_parity() {
  return parity_scenario("A small training in combinations of what fully_shard can be asked for.",
                         variants(), [](Rank& rank) { train_sharded(rank, fully_shard); });
}

}  // namespace lockstep
