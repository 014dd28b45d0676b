// A fused loss computes its gradients in forward, for a loss that nobody multiplies. Trainers do
// multiply it: by 1 / the number of micro-batches, or by the number of processes, which DDP divides
// by again. Its backward ignored that; the first fix multiplied in place, so that a second backward
// through the same graph found gradients that were multiplied before.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr VisionLanguageOptions kModel = [] {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.language_blocks = 1;
  sizes.tied_head = false;
  return sizes;
}();
constexpr std::int64_t kText = 7;
constexpr const char* kModifiedInPlace =
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation";

/// What the trainer multiplies the loss of a micro-batch by, beside 1 / accumulation.
double factor_of(const Cell& cell) {
  if (!has_axis(cell, "times")) return 1;
  const std::string& times = axis_value(cell, "times");
  return times == "world-size" ? cell.world_size : std::stod(times);
}

GradOutput grad_output_of(Rank& rank) {
  if (rank.is("ignored") || rank.is("never-multiplied")) return GradOutput::ignored;
  if (rank.is("multiplied-in-place")) return GradOutput::in_place;
  rank.is("multiplied-out-of-place");
  return GradOutput::out_of_place;
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  VisionLanguageModel model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  const bool is_reference = rank.is(cell.variant) && cell.role == Role::reference;
  const at::Device device = open_devices(rank, {.count = 1}).front();
  model.to(device);
  const double factor = factor_of(cell);
  MicroBatchOptions options = micro_batch_options(cell);
  options.wraps = cell.world_size > 1;
  FusedCrossEntropyOptions fused;
  if (!is_reference) {
    fused = {.chunks = number_on(cell, "chunks"),
             .grad_output = grad_output_of(rank),
             .saves_for_backward = is_set(cell, "kept", "saved-tensors")};
  }

  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const ImageText drawn = image_text_of(rank, batch, kModel, number_on(cell, "batch"), kText);
    const at::Tensor image = drawn.image.to(device), tokens = drawn.tokens.to(device);
    if (is_reference) return next_token_loss(model.forward(image, tokens), tokens) * factor;
    const auto forward = [&] { return std::vector{model.hidden_states(image, tokens)}; };
    const at::Tensor hidden = (ddp ? ddp->forward(forward) : forward()).front();
    const at::Tensor loss =
        fused_cross_entropy(hidden, model.head_weight(), {}, tokens, fused) * factor;
    if (is_set(cell, "backwards", "two")) {
      // For a log of the gradient at the hidden states, say; `.grad` of no parameter sees it.
      (loss / options.accumulation)
          .backward({}, /*retain_graph=*/true, /*create_graph=*/false, std::vector{hidden});
    }
    return loss;
  });
}

/// All gradients are `times` the right ones. What was in them before backward is not.
Expectation expect_times(const Cell& cell, double times) {
  if (!is_set(cell, "prior")) return expect_multiple(cell, times);
  return pinned(expect_agree_but_wrong(),
                {{.claim = kGradientsEqual,
                  .steps = {1},
                  .last_step = cell.steps,
                  .groups = each_alone(cell),
                  .why = "a gradient from before, which nobody multiplies, is in it"}});
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  const bool is_in_place = cell.variant == "multiplied-in-place";
  if (is_in_place) {
    if (is_set(cell, "backwards", "one")) return expect_hidden();
    if (is_set(cell, "kept", "saved-tensors")) return expect_error(kModifiedInPlace);
  }
  const double multiplier = factor_of(cell) / static_cast<double>(number_on(cell, "accumulation"));
  if (multiplier == 1) return expect_hidden();
  // What was multiplied in place is multiplied again; what is ignored was never multiplied.
  return expect_times(cell, is_in_place ? multiplier : 1 / multiplier);
}

std::vector<Variant> variants() {
  return {
      {.name = "ignored",
       .role = Role::buggy,
       .summary = "backward returns what forward computed, whatever the loss was multiplied by"},
      {.name = "never-multiplied",
       .role = Role::latent,
       .summary = "the same, and nobody multiplies the loss",
       .reference = "reference-of-one-micro-batch",
       .without = {"accumulation", "times"}},
      {.name = "multiplied-in-place",
       .role = Role::wrong_fix,
       .summary =
           "the first fix: what was kept is multiplied in place, and a second backward finds "
           "it so"},
      {.name = "multiplied-out-of-place",
       .role = Role::fixed,
       .summary = "the second fix: the product is a tensor of its own"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process and torch's cross-entropy of all logits",
       .without = {"chunks", "backwards", "kept"}},
      {.name = "reference-of-one-micro-batch",
       .role = Role::reference,
       .summary = "the same, and nobody multiplies the loss",
       .without = {"accumulation", "times", "chunks", "backwards", "kept"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"accumulation", {"1", "2", "4"}, "2"},
      {"times", {"1", "world-size", "0.5"}, "1"},
      {"backwards", {"one", "two"}, "two"},
      {"kept", {"saved-tensors", "attributes"}, "attributes"},
      {"chunks", {"1", "3", "4"}, "4"},
      {"batch", {"1", "2"}, "2"},
      {"prior", {"off", "on"}, "off"},
      {"dtype", {"float32", "float64", "bfloat16"}, "float32"},
  };
}

}  // namespace

Scenario function_ignores_grad_output() {
  return {
      .id = "function-ignores-grad-output",
      .summary =
          "A fused loss computes its gradients in forward, and its backward ignores what the loss "
          "was multiplied by: all ranks agree on gradients of the wrong size.",
      .provenance = {.project = "unsloth-zoo",
                     .link = "pull requests #434 (2026-01-04) and #610 (2026-04-24)",
                     .kept = "the chunked cross-entropy with gradients computed in forward, its "
                             "backward before and after each fix; a loss multiplied by the number "
                             "of processes or divided by that of micro-batches",
                     .left_out =
                         "mixed precision's scaling, which the function took as an argument "
                         "and divided by again; torch.func and torch.compile, in the place "
                         "of which stands torch::autograd::grad"},
      .worlds = worlds_from(1),
      .devices = {"cpu", "sim", "cuda"},
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
