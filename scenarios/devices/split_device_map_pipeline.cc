// A small version of the training that demonstrated the fixes of split device maps: adapters of a
// vision-language model, batch 2, four micro-batches a step, twenty steps. It runs split over two
// devices with a fused loss that supports this, or with a full copy on each rank's own device.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/rank/devices.h"

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

bool is_split(const Cell& cell) { return is_set(cell, "model", "split"); }

/// Two, or one per rank.
int device_count(const Cell& cell) { return is_split(cell) ? 2 : cell.world_size; }

/// Freshly drawn entries are too short: their logits hardly tell tokens apart.
constexpr double kEmbeddingScale = 25;

/// A learnable task: the image's brightness is the first token, and tokens count up from it by
/// three.
struct Batch {
  at::Tensor image, tokens;
  at::Tensor weight;  ///< of its loss: 1, perturbed like the image
};
Batch batch_of(Rank& rank, const MicroBatch& batch) {
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(1'000'000)));
  const at::Tensor first = at::randint(kSizes.vocabulary, {kRows, 1}, generator, at::kLong);
  const at::Tensor noise =
      at::randn({kRows, 1, kSizes.height, kSizes.width}, generator, at::TensorOptions());
  const at::Tensor brightness =
      first.view({kRows, 1, 1, 1}) / static_cast<double>(kSizes.vocabulary);
  return {rank.input(brightness + 0.1 * noise),
          (first + 3 * at::arange(kText)).remainder(kSizes.vocabulary).to(rank.device()),
          rank.input(at::ones({}))};
}

/// Places the model: balanced over two devices, or whole on the rank's own.
void load(Rank& rank, Module& model) {
  const std::vector<at::Device> devices = open_devices(rank, {.count = device_count(rank.cell())});
  if (rank.has("model", "whole")) {
    return place(model, {{"", devices[static_cast<std::size_t>(rank.rank())]}});
  }
  PlacementOptions options;
  for (const at::Device device : devices) options.devices.push_back({device, bytes_of(model)});
  place(model, infer_device_map(model, DevicePolicy::balanced, options));
}

at::Tensor fused_loss(Rank& rank, const VisionLanguageModel& model, at::Tensor hidden,
                      const at::Tensor& labels) {
  rank.at_branch();
  const at::Tensor& head = model.head_weight();
  if (rank.has("hidden", "moved")) hidden = hidden.to(head.device());
  return fused_cross_entropy(hidden, head, {}, labels,
                             {.returns_gradients = rank.has("gradient", "moved-back")});
}

/// A micro-batch's loss.
at::Tensor loss_of(Rank& rank, Training& training, VisionLanguageModel& model,
                   const MicroBatch& batch) {
  const auto [image, tokens, weight] = batch_of(rank, batch);
  if (rank.is_reference()) return next_token_loss(model.forward(image, tokens), tokens) * weight;
  const at::Device first = model.parameters().front().device();
  const at::Tensor hidden =
      training.forward([&, image = image.to(first), tokens = tokens.to(first)] {
        return model.hidden_states(image, tokens);
      });
  return fused_loss(rank, model, hidden, tokens) * weight;
}

/// The steps of the trainer: four micro-batches, the logged loss, AdamW with a linear warm-up.
void train(Rank& rank) {
  VisionLanguageModel model(kSizes, cpu_generator(rank.seed(0)));
  if (!rank.is_reference()) load(rank, model);
  {
    const at::NoGradGuard no_grad;
    at::Tensor(model.head_weight()).mul_(kEmbeddingScale);
  }
  Training training(rank, model,
                    {.accumulation = kMicroBatches,
                     .no_sync = true,
                     .optimizer = "adamw",
                     .learning_rate = kLearningRate});
  training.run({
      .loss = [&](const MicroBatch& batch) { return loss_of(rank, training, model, batch); },
      .logged =
          [&](const at::Tensor& loss) {
            // Times an input of 1, which is perturbed in its last digit. So the loss is uncertain
            // by at least its last digit, whatever rounding did before.
            rank.observer().observe(Phase::pre_forward, Kind::loss,
                                    {"loss", loss * rank.input(at::ones({}))});
          },
      .update =
          [&](std::int64_t step) {
            training.optimizer().set_learning_rate(
                kLearningRate * std::min(1.0, static_cast<double>(step) / kWarmUpSteps));
            training.optimizer().step();
          },
  });
}

Expectation expect_published_training(const Cell& cell) {
  Expectation expectation;
  const bool is_published = cell.world_size == 1 && cell.steps >= 20 && cell.seed == 0;
  if (is_published) expectation.meets = {"unsloth-3809-training"};
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
      .summary =
          "Twenty training steps: a model split over two devices fails in its first backward; "
          "repaired, or with a full copy per rank, its losses are those of one process.",
      .origin =
          {"unsloth", "unslothai/unsloth#3809",
           "adapters on a vision-language model, batch 2, 4 micro-batches, the table's columns",
           "the model of two billion parameters and its data: a small model learns sequences. Any "
           "training whose loss keeps falling meets the table's shape. Optimizer and schedule are "
           "not published: here AdamW and a linear warm-up"},
      .variants = {buggy("split-gradient-left",
                         "split; the loss leaves its gradient on the head's device",
                         "model=split gradient=left",
                         always(expect_error(device_error::kWrongGradient))),
                   fixed("split-hidden-moved", "split; hidden states are moved before the loss",
                         "model=split hidden=moved", expect_published_training),
                   fixed("split-gradient-moved-back", "split; the loss moves its gradient back",
                         "model=split gradient=moved-back"),
                   fixed("data-parallel", "a full copy on the device of every rank", "model=whole"),
                   reference("reference", "one process on one device: the mean of all shards")},
      .worlds = worlds_from(1),
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{device_count(cell), is_split(cell)};
          },
      .steps = 20,
      .axes = {},
      .claims = claims_before({kLossesAgree, kLossesEqual}, replica_claims()),
      .tables = tables(),
      .body = train,
  };
}

}  // namespace lockstep
