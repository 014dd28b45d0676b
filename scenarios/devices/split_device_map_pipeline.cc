// The training that the repairs of split device maps were shown with, in small: adapters of a
// vision-language model, batch 2, four micro-batches a step, twenty steps. Once split over two
// devices, with what the fused loss needs for that, once with a full copy on each rank's own
// device.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 2;
constexpr std::int64_t kMicroBatches = 4;
constexpr std::int64_t kText = 6;
constexpr double kLearningRate = 1e-2;
constexpr double kWarmUpSteps = 5;

constexpr VisionLanguageOptions kSizes = [] {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.vocabulary = 16;
  sizes.max_text = kText;
  sizes.language_hidden = 16;
  sizes.language_blocks = 3;
  sizes.lora = LoraOptions{.draws_b = true};
  return sizes;
}();

bool is_split(const Cell& cell) { return is_about(cell, "split"); }

/// Two, or one per rank.
int device_count(const Cell& cell) { return is_split(cell) ? 2 : cell.world_size; }

/// Frozen entries as freshly drawn are too short for logits that tell tokens apart.
constexpr double kEmbeddingScale = 25;

/// Something to learn: an image whose brightness is the first token, and tokens that count up from
/// it by three.
struct Batch {
  at::Tensor image, tokens;
  at::Tensor weight;  ///< of its loss: 1, and an input as the image is
};
Batch batch_of(Rank& rank, const MicroBatch& batch) {
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(1'000'000)));
  const at::Tensor first = at::randint(kSizes.vocabulary, {kRows, 1}, generator, at::kLong);
  const at::Tensor noise =
      at::randn({kRows, 1, kSizes.height, kSizes.width}, generator, at::TensorOptions());
  const at::Tensor brightness =
      first.view({kRows, 1, 1, 1}) / static_cast<double>(kSizes.vocabulary);
  return {rank.input(brightness + 0.1 * noise),
          (first + 3 * at::arange(kText)).remainder(kSizes.vocabulary), rank.input(at::ones({}))};
}

/// Where variants part: the devices of the model, and what the fused loss does about them.
class Way {
 public:
  Way(Rank& rank, Module& model) {
    if (rank.is("reference")) return;
    const std::vector<at::Device> devices =
        open_devices(rank, {.count = device_count(rank.cell())});
    fused_.returns_gradients = rank.is("split-gradient-moved-back");
    moves_hidden_ = rank.is("split-hidden-moved");
    if (rank.is("data-parallel")) {
      place(model, {{"", devices[static_cast<std::size_t>(rank.rank())]}});
    } else {
      rank.is("split-gradient-left");
      PlacementOptions options;
      for (const at::Device device : devices) options.devices.push_back({device, bytes_of(model)});
      place(model, infer_device_map(model, DevicePolicy::balanced, options));
    }
  }

  at::Tensor loss(const VisionLanguageModel& model, const at::Tensor& hidden,
                  const at::Tensor& labels) const {
    const at::Tensor& head = model.head_weight();
    return fused_cross_entropy(moves_hidden_ ? hidden.to(head.device()) : hidden, head, {}, labels,
                               fused_);
  }

 private:
  FusedCrossEntropyOptions fused_;
  bool moves_hidden_ = false;
};

/// A trainer's step: four micro-batches, the loss that is logged, AdamW with a linear warm-up.
class Trainer {
 public:
  explicit Trainer(Rank& rank)
      : rank_(rank),
        model_(kSizes, cpu_generator(rank.seed(0))),
        way_(rank, model_),
        optimizer_(make_optimizer("adamw", model_.parameters(), kLearningRate)) {
    const at::NoGradGuard no_grad;
    at::Tensor(model_.head_weight()).mul_(kEmbeddingScale);
    if (rank.cell().role != Role::reference) ddp_.emplace(model_, rank.group());
  }

  void step(std::int64_t step) {
    observe_placement(rank_, model_);
    model_.zero_grad();
    observe_loss(ddp_ ? train_shard(step) : train_all_shards(step));
    rank_.observe_gradients(Phase::pre_step, model_);
    optimizer_->set_learning_rate(kLearningRate *
                                  std::min(1.0, static_cast<double>(step) / kWarmUpSteps));
    optimizer_->step();
    rank_.observe_parameters(Phase::post_step, model_);
  }

 private:
  /// The loss of this rank's shard, averaged over the ranks, as a trainer logs it.
  at::Tensor train_shard(std::int64_t step) {
    at::Tensor sum = at::zeros({});
    for (std::int64_t index = 0; index < kMicroBatches; ++index) {
      std::optional<DistributedDataParallel::NoSync> quiet;
      if (index + 1 < kMicroBatches) quiet.emplace(*ddp_);
      const auto [image, tokens, weight] = batch_of(rank_, {rank_.rank(), step, index});
      const at::Device first = model_.parameters().front().device();
      const at::Tensor hidden =
          ddp_->forward([&, image = image.to(first)] {
                return std::vector{model_.hidden_states(image, tokens.to(first))};
              })
              .front();
      const at::Tensor loss = way_.loss(model_, hidden, tokens) * weight / kMicroBatches;
      sum += loss.detach().cpu();
      loss.backward();
    }
    rank_.group().all_reduce(sum, ReduceOp::average);
    return sum;
  }

  at::Tensor train_all_shards(std::int64_t step) {
    at::Tensor sum = at::zeros({});
    rank_.mean_of_rank_gradients(model_, [&](int owner) {
      at::Tensor loss = at::zeros({});
      for (std::int64_t index = 0; index < kMicroBatches; ++index) {
        const auto [image, tokens, weight] = batch_of(rank_, {owner, step, index});
        const at::Tensor own = next_token_loss(model_.forward(image, tokens), tokens);
        loss = loss + own * weight / kMicroBatches;
      }
      sum += loss.detach();
      return loss;
    });
    return sum / rank_.world_size();
  }

  /// Times 1, as an input: the last digit of a number alone is open, whatever rounding did before.
  void observe_loss(const at::Tensor& loss) {
    rank_.observer().observe(Phase::pre_forward, Kind::loss,
                             {"loss", loss * rank_.input(at::ones({}))});
  }

  Rank& rank_;
  VisionLanguageModel model_;
  Way way_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<DistributedDataParallel> ddp_;
};

void train(Rank& rank) {
  Trainer trainer(rank);
  rank.train([&](std::int64_t step) { trainer.step(step); });
}

Expectation expect(const Cell& cell) {
  if (cell.role == Role::buggy) return expect_error(device_error::kWrongGradient);
  Expectation expectation;
  if (cell.variant == "split-hidden-moved" && cell.world_size == 1 && cell.steps >= 20 &&
      cell.seed == 0) {
    expectation.meets = {"unsloth-3809-training"};
  }
  return expectation;
}

std::vector<TableSpec> tables() {
  return {{.title = "Training loss, the mean over all micro-batches and ranks of a step",
           .quantity = Quantity::element,
           .kind = Kind::loss,
           .phase = Phase::pre_forward,
           .tensor = "loss",
           .symbol = "loss",
           .digits = 6,
           .groups = {{"SPLIT", "split-hidden-moved"}, {"DATA PARALLEL", "data-parallel"}}}};
}

}  // namespace

Scenario split_device_map_pipeline() {
  return {
      .id = "split-device-map-pipeline",
      .summary =
          "The same in a whole training of twenty steps: split over two devices it ends in the "
          "first backward; repaired, or with a full copy per rank, its losses are those of one "
          "process.",
      .provenance = {.project = "unsloth",
                     .link = "unslothai/unsloth#3809",
                     .kept = "adapters of a vision-language model, batch 2, four micro-batches, "
                             "twenty steps, the columns of the table",
                     .left_out =
                         "the model of two billion parameters and its data: a small model "
                         "and sequences to learn take their place, so the table is met in "
                         "shape and not in its digits: any training whose loss keeps falling "
                         "meets it, and it shows that the repaired one trains, not that it trains "
                         "as the original does; the pull request does not show "
                         "optimizer and schedule: here they are AdamW and a linear warm-up"},
      .worlds = worlds_from(1),
      .devices = {"sim", "cuda"},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{device_count(cell), is_split(cell)};
          },
      .steps = 20,
      .axes = {},
      .variants =
          {
              {"split-gradient-left", Role::buggy,
               "split; the loss leaves its gradient where the "
               "head is"},
              {"split-hidden-moved", Role::fixed, "split; hidden states are moved before the loss"},
              {"split-gradient-moved-back", Role::fixed, "split; the loss moves its gradient back"},
              {"data-parallel", Role::fixed, "a full copy on the device of every rank"},
              {"reference", Role::reference, "one process on the CPU: the mean of all shards"},
          },
      .claims = claims_before({kLossesAgree, kLossesEqual}, replica_claims()),
      .tables = tables(),
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
