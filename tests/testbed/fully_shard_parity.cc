// The same small training that tests/python/fully_shard_parity.py runs through Python's
// fully_shard. Both sides must agree in outcome, collectives and bits. The name of a variant is its
// words, joined by "+"; the Python side reads them from the folders of a run.

#include "tests/testbed/fully_shard_parity.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/train/activation_checkpoint.h"
#include "harness/train/fully_shard.h"
#include "harness/train/optimizer.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"
#include "harness/train/swiglu.h"
#include "harness/train/tiled.h"
#include "harness/train/transformer.h"

namespace lockstep {

namespace {

/// Which modules are wrapped beside the root.
constexpr std::array<std::string_view, 4> kLevels{"mlp", "layer", "mlp-and-layer", "root"};

/// What is asked for, beside the level. Empty: the standards.
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

constexpr std::int64_t kInputs = 4;
constexpr int kLayers = 3;
constexpr std::int64_t kTiles = 2;

bool has(const Rank& rank, std::string_view word) { return has_word(rank, word); }

/// Own parameters, and an MLP.
struct Layer : Module {
  Layer(std::int64_t width, std::int64_t hidden, const at::Generator& generator)
      : norm(register_module("norm", std::make_shared<LayerNorm>(width))),
        mlp(register_module("mlp", std::make_shared<SwiGlu>(width, hidden, generator))),
        scale(register_parameter("scale", at::ones({1}))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return input + (*mlp)((*norm)(input)) * scale;
  }

  std::shared_ptr<LayerNorm> norm;
  std::shared_ptr<SwiGlu> mlp;
  at::Tensor scale;
};

/// Uneven sizes: 5 and 7 rows, cut for 2 and 3 ranks, and tensors of a single row.
struct Model : Module {
  Model(const Rank& rank, const at::Generator& generator)
      : checkpoints(has(rank, "checkpoint")),
        checkpoints_reentrant(has(rank, "checkpoint-reentrant")),
        skips_a_layer(has(rank, "skips-a-layer")) {
    const std::int64_t width = has(rank, "even") ? 6 : 5;
    const std::int64_t hidden = has(rank, "even") ? 12 : 7;
    embedding = register_module("embedding", std::make_shared<Linear>(kInputs, width, generator));
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module("layers." + std::to_string(i),
                                       std::make_shared<Layer>(width, hidden, generator)));
    }
    head = register_module("head", std::make_shared<Linear>(width, 1, generator));
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor hidden = (*embedding)(input);
    for (const auto& layer : layers) {
      if (skips_a_layer && layer == layers[1]) continue;
      const SegmentOfOne segment = [layer](const at::Tensor& rows) { return (*layer)(rows); };
      if (checkpoints_reentrant) {
        hidden = checkpoint_reentrant(segment, hidden);
      } else {
        hidden = checkpoints ? checkpoint(segment, hidden) : segment(hidden);
      }
    }
    return (*head)(hidden);
  }

  bool checkpoints, checkpoints_reentrant, skips_a_layer;
  std::shared_ptr<Linear> embedding, head;
  std::vector<std::shared_ptr<Layer>> layers;
};

/// How the MLPs are tiled; absent: they are not.
std::optional<TilingOptions> tiling_of(const Rank& rank) {
  TilingOptions tiling{.tiles = kTiles};
  if (has(rank, "tiles-per-tile")) return tiling;
  if (has(rank, "tiles-set-aside")) {
    tiling.accumulation = TileAccumulation::set_aside;
    return tiling;
  }
  tiling.backward = TileBackward::grad_but_last;
  if (has(rank, "tiles-but-last")) return tiling;
  tiling.backward = TileBackward::explicit_inputs;
  if (has(rank, "tiles-explicit")) return tiling;
  return std::nullopt;
}

std::vector<Module*> wrapped_of(const Rank& rank, const Model& model) {
  std::vector<Module*> wrapped;
  for (const auto& layer : model.layers) {
    if (has(rank, "mlp") || has(rank, "mlp-and-layer")) wrapped.push_back(layer->mlp.get());
    if (has(rank, "layer") || has(rank, "mlp-and-layer")) wrapped.push_back(layer.get());
  }
  return wrapped;
}

FullyShardOptions options_of(const Rank& rank) {
  FullyShardOptions options;
  if (has(rank, "no-reshard-after-forward")) options.reshard_after_forward = false;
  if (has(rank, "reshard-root")) options.reshard_after_forward = true;
  if (has(rank, "bfloat16")) {
    options.param_dtype = at::kBFloat16;
    options.reduce_dtype = at::kFloat;
  }
  return options;
}

at::Tensor input_of(const Rank& rank, std::int64_t step, std::int64_t micro_batch) {
  const std::int64_t seed = 1000 * step + 100 * micro_batch + rank.rank();
  return at::randn({2 + rank.rank(), 3, kInputs}, cpu_generator(rank.seed(seed)),
                   at::TensorOptions());
}

void backward(Rank& rank, ShardedModel& model, std::int64_t micro_batch) {
  at::Tensor input = input_of(rank, rank.step(), micro_batch);
  if (has(rank, "float64")) input = input.to(at::kDouble);
  if (has(rank, "evaluates")) {
    const at::NoGradGuard no_grad;
    model.forward(input);
  }
  at::Tensor loss = model.forward(input).pow(2).mean();
  if (has(rank, "two-forwards")) loss = loss + model.forward(input * 2).pow(2).mean();
  loss.backward();
  rank.observer().begin_micro_batch(micro_batch);
  rank.observe_gradients(Point::reduced, model);
}

std::vector<NamedTensor> copies_of(const Module& model) {
  std::vector<NamedTensor> copies;
  for (const auto& [name, tensor] : model.named_parameters()) {
    copies.push_back({name, tensor.detach().clone()});
  }
  return copies;
}

/// What the shards have to add up to.
void observe_whole(Rank& rank, const std::vector<NamedTensor>& whole) {
  for (const auto& [name, tensor] : whole) {
    rank.observer().observe(Point::forward, Kind::parameter, "whole." + name, tensor);
  }
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
      std::string name(level);
      if (!flags.empty()) name.append("+").append(flags);
      all.push_back({name, Role::buggy, "as its name says"});
    }
  }
  return all;
}

}  // namespace

bool has_word(const Rank& rank, std::string_view word) {
  const std::string words = "+" + rank.cell().variant + "+";
  return words.find("+" + std::string(word) + "+") != std::string::npos;
}

void train_sharded(Rank& rank, const MakeSharded& make) {
  rank.is(rank.cell().variant);  // the words of its name are asked for one by one
  Model model(rank, cpu_generator(rank.seed(7)));
  if (has(rank, "float64")) model.to(at::kDouble);
  if (has(rank, "frozen-embedding")) model.embedding->freeze();
  if (has(rank, "frozen-layer")) model.layers[1]->freeze();
  if (const auto tiling = tiling_of(rank)) {
    for (const auto& layer : model.layers) tile_calls(*layer->mlp, *tiling);
  }
  const std::vector<NamedTensor> whole = copies_of(model);
  const std::unique_ptr<ShardedModel> sharded = make(rank, model, wrapped_of(rank, model));
  if (has(rank, "tiles-around")) {
    for (const auto& layer : model.layers) tile_calls(*layer->mlp, {.tiles = kTiles});
  }
  const at::Tensor weight = model.layers[0]->mlp->parameters()[0];
  Sgd optimizer(sharded->parameters(), /*learning_rate=*/0.1);
  const bool accumulates = has(rank, "no-sync") || has(rank, "two-backwards");

  rank.train([&](std::int64_t step) {
    if (step == 1) {
      observe_whole(rank, whole);
      rank.observe_parameters(Point::forward, *sharded);
    }
    sharded->zero_grad();
    if (accumulates) {
      sharded->set_requires_gradient_sync(!has(rank, "no-sync"));
      set_reshard_after_backward(*sharded, !has(rank, "no-reshard-after-backward"));
      backward(rank, *sharded, 0);
      sharded->set_requires_gradient_sync(true);
      set_reshard_after_backward(*sharded, true);
    }
    backward(rank, *sharded, 1);
    if (has(rank, "uses-released")) at::mm(at::ones({1, weight.size(0)}), weight);
    optimizer.step();
    rank.observe_parameters(Point::stepped, *sharded);
  });
}

Scenario fully_shard_parity() {
  return {
      .id = "fully-shard-parity",
      .summary = "A small training in combinations of what fully_shard can be asked for.",
      .provenance = {"tests", "none", "nothing", "nothing"},
      .worlds = {2, 3},
      .steps = 3,
      .axes = {},
      .variants = variants(),
      .claims = {ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = [](Rank& rank) { train_sharded(rank, fully_shard); },
  };
}

}  // namespace lockstep
