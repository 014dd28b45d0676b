// The same small training that tests/python/zero_parity.py runs through DeepSpeed's ZeRO. Both
// sides must agree in bits. The name of a variant is its words, joined by "+"; the Python side
// reads them from the folders of a run.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/train/activation_checkpoint.h"
#include "harness/train/optimizer.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"
#include "harness/train/swiglu.h"
#include "harness/train/tile_readiness.h"
#include "harness/train/tiled.h"
#include "harness/train/transformer.h"
#include "harness/train/zero.h"

namespace lockstep {

namespace {

/// What is asked for, beside the stage. Empty: the standards.
constexpr std::array<std::string_view, 18> kFlags{
    "",
    "even",
    "small-buckets",
    "accumulates",
    "accumulates+small-buckets",
    "frozen-embedding",
    "skips-a-layer",
    "skips-a-layer+accumulates",
    "checkpoint",
    "checkpoint-reentrant",
    "checkpoint-reentrant+small-buckets",
    "tiles-ready",
    "tiles-ready+small-buckets",
    "tiles-ready+accumulates",
    "tiles-per-tile",
    "tiles-per-tile+small-buckets",
    "tiles-but-last",
    "tiles-explicit",
};

constexpr std::int64_t kInputs = 4;
constexpr int kLayers = 3;
constexpr std::int64_t kTiles = 2;
constexpr std::int64_t kSmallBucket = 60;  // elements: some parameters are larger
constexpr std::int64_t kLargeBucket = 100'000;

bool has(const Rank& rank, std::string_view word) {
  const std::string words = "+" + rank.cell().variant + "+";
  return words.find("+" + std::string(word) + "+") != std::string::npos;
}

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
        checkpoints_reentrant(has(rank, "checkpoint-reentrant")) {
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
      if (skips && layer == layers[1]) continue;
      const SegmentOfOne segment = [layer](const at::Tensor& rows) { return (*layer)(rows); };
      if (checkpoints_reentrant) {
        hidden = checkpoint_reentrant(segment, hidden);
      } else {
        hidden = checkpoints ? checkpoint(segment, hidden) : segment(hidden);
      }
    }
    return (*head)(hidden);
  }

  bool checkpoints, checkpoints_reentrant;
  bool skips = false;  ///< the second layer, now
  std::shared_ptr<Linear> embedding, head;
  std::vector<std::shared_ptr<Layer>> layers;
};

/// How the MLPs are tiled; absent: they are not.
std::optional<TilingOptions> tiling_of(const Rank& rank) {
  TilingOptions tiling{.tiles = kTiles};
  if (has(rank, "tiles-per-tile")) return tiling;
  if (has(rank, "tiles-ready")) {
    tell_readiness(tiling);
    return tiling;
  }
  tiling.backward = TileBackward::grad_but_last;
  if (has(rank, "tiles-but-last")) return tiling;
  tiling.backward = TileBackward::explicit_inputs;
  if (has(rank, "tiles-explicit")) return tiling;
  return std::nullopt;
}

ZeroOptions options_of(const Rank& rank) {
  ZeroOptions options;
  for (options.stage = 1; !has(rank, "stage-" + std::to_string(options.stage));) ++options.stage;
  options.reduce_bucket_size = has(rank, "small-buckets") ? kSmallBucket : kLargeBucket;
  return options;
}

at::Tensor input_of(const Rank& rank, std::int64_t step, std::int64_t micro_batch) {
  const std::int64_t seed = 1000 * step + 100 * micro_batch + rank.rank();
  return at::randn({2 + rank.rank(), 3, kInputs}, cpu_generator(rank.seed(seed)),
                   at::TensorOptions());
}

void train(Rank& rank) {
  rank.is(rank.cell().variant);  // the words of its name are asked for one by one
  Model model(rank, cpu_generator(rank.seed(7)));
  if (has(rank, "frozen-embedding")) model.embedding->freeze();
  if (const auto tiling = tiling_of(rank)) {
    for (const auto& layer : model.layers) tile_calls(*layer->mlp, *tiling);
  }
  Zero sharded(model, rank.group(), options_of(rank));
  Sgd optimizer(sharded.parameters(), /*learning_rate=*/0.1);
  const int accumulation = has(rank, "accumulates") ? 2 : 1;

  rank.train([&](std::int64_t step) {
    sharded.zero_grad();
    for (int micro_batch = 0; micro_batch < accumulation; ++micro_batch) {
      model.skips = has(rank, "skips-a-layer") && step == 2 && micro_batch == 0;
      sharded.set_requires_gradient_sync(micro_batch + 1 == accumulation);
      const at::Tensor loss = sharded.forward(input_of(rank, step, micro_batch)).pow(2).mean();
      (loss / accumulation).backward();
    }
    rank.observer().begin_micro_batch(accumulation - 1);
    rank.observe_gradients(Point::reduced, sharded);
    optimizer.step();
    sharded.finish_step();
    rank.observe_parameters(Point::stepped, sharded);
  });
}

/// DeepSpeed's buffer for stage 2 overflows where a parameter is reduced twice, its asserts aside.
bool is_refused(std::string_view stage, std::string_view flags) {
  return stage == "stage-2" && flags.starts_with("tiles-per-tile");
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string_view stage : {"stage-1", "stage-2", "stage-3"}) {
    for (const std::string_view flags : kFlags) {
      if (is_refused(stage, flags)) continue;
      std::string name(stage);
      if (!flags.empty()) name.append("+").append(flags);
      all.push_back({name, Role::buggy, "as its name says"});
    }
  }
  return all;
}

}  // namespace

Scenario zero_parity() {
  return {
      .id = "zero-parity",
      .summary = "A small training in combinations of what ZeRO can be asked for.",
      .provenance = {"tests", "none", "nothing", "nothing"},
      .worlds = {2, 3},
      .steps = 3,
      .axes = {},
      .variants = variants(),
      .claims = {ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = train,
  };
}

}  // namespace lockstep
