// The small training that tests/parity/zero_parity.py runs with DeepSpeed's ZeRO. Both sides must
// agree in bits. The name of a variant is its words, joined by "+"; the Python side reads them from
// the folders of a run.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/zero.h"
#include "tests/parity/parity_model.h"
#include "tests/parity/parity_scenario.h"

namespace lockstep {

namespace {

/// Options in addition to the stage. Empty: the defaults.
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

constexpr std::int64_t kSmallBucket = 60;  // elements: some parameters are larger
constexpr std::int64_t kLargeBucket = 100'000;

ZeroOptions options_of(const Rank& rank) {
  ZeroOptions options;
  for (options.stage = 1; !rank.has("stage-" + std::to_string(options.stage));) ++options.stage;
  options.reduce_bucket_size = rank.has("small-buckets") ? kSmallBucket : kLargeBucket;
  return options;
}

void train(Rank& rank) {
  rank.at_branch();
  ParityModel model(rank);
  Zero sharded(model, rank.group(), options_of(rank));
  Sgd optimizer(sharded.parameters(), /*learning_rate=*/0.1);
  const int accumulation = rank.has("accumulates") ? 2 : 1;

  rank.train([&](std::int64_t step) {
    sharded.zero_grad();
    for (int micro_batch = 0; micro_batch < accumulation; ++micro_batch) {
      model.skips_a_layer = rank.has("skips-a-layer") && step == 2 && micro_batch == 0;
      sharded.set_requires_gradient_sync(micro_batch + 1 == accumulation);
      const at::Tensor loss = sharded.forward(parity_input(rank, step, micro_batch)).pow(2).mean();
      (loss / accumulation).backward();
    }
    rank.observer().begin_micro_batch(accumulation - 1);
    rank.observe_gradients(Phase::pre_step, sharded);
    optimizer.step();
    sharded.finish_step();
    rank.observe_parameters(Phase::post_step, sharded);
  });
}

/// With its asserts off, DeepSpeed's buffer for stage 2 overflows if a parameter is reduced twice.
bool is_refused(std::string_view stage, std::string_view flags) {
  return stage == "stage-2" && flags.starts_with("tiles-per-tile");
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string_view stage : {"stage-1", "stage-2", "stage-3"}) {
    for (const std::string_view flags : kFlags) {
      if (is_refused(stage, flags)) continue;
      all.push_back(variant_of_words({stage, flags}));
    }
  }
  return all;
}

}  // namespace

Scenario zero_parity() {
  return parity_scenario("A small training in combinations of what ZeRO can be asked for.",
                         variants(), train);
}

}  // namespace lockstep
