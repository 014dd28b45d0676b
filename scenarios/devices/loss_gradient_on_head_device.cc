// A device map splits a model: the body on one device, the head on another. A fused loss computes
// on the head's device, gradients included. It returns the hidden states' gradient on that device,
// and the autograd engine rejects it. The engine silently moves a 0-dim gradient.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

constexpr int kDevices = 2;

/// If the logit scale crosses devices, the model has a 0-dim factor for its logits, as CLIP has.
class Model : public VisionLanguageModel {
 public:
  explicit Model(const Rank& rank) : VisionLanguageModel(kTinyUntied, cpu_generator(rank.seed(0))) {
    if (rank.has("crossing", "logit-scale")) {
      logit_scale = register_parameter("logit_scale", at::full({}, 1.25));
    }
    if (rank.has("head", "frozen")) at::Tensor(head_weight()).requires_grad_(false);
    to(dtype_of(rank.cell()));
  }

  at::Tensor logit_scale;  ///< undefined unless the scale crosses
};

/// Autograd records tensors that are moved before the function, and moves their gradients back. If
/// the scale crosses, the hidden states are always moved.
at::Tensor fused_loss(Rank& rank, const Model& model, at::Tensor hidden, const at::Tensor& labels) {
  rank.at_branch();
  const at::Device head = model.head_weight().device();
  const bool moves_before = rank.has("inputs", "moved-before");
  at::Tensor scale = model.logit_scale;
  if (moves_before || scale.defined()) hidden = hidden.to(head);
  // What is moved last comes back first. A scale that comes back second races with the body's
  // thread, and DDP's buckets keep the order in which gradients arrived.
  if (moves_before && scale.defined()) scale = scale.to(head);
  return fused_cross_entropy(hidden, model.head_weight(), scale, labels,
                             {.chunks = rank.number("chunks"),
                              .moves_inputs = !rank.has("inputs", "not-moved"),
                              .is_functional = rank.has("computed_by", "functorch"),
                              .returns_gradients = rank.has("gradients", "moved-back")});
}

at::Tensor plain_loss(Model& model, const ImageText& batch) {
  at::Tensor logits = model.forward(batch.image, batch.tokens);
  if (model.logit_scale.defined()) logits = logits * model.logit_scale;
  return next_token_loss(logits, batch.tokens);
}

void split(Rank& rank, Model& model) {
  const std::vector<at::Device> devices = open_devices(rank, {.count = kDevices});
  const at::Device head = rank.has("split", "no") ? devices[0] : devices[1];
  place(model, {{"", devices[0]}, {"language.head", head}});
}

void train(Rank& rank) {
  Model model(rank);
  if (!rank.is_reference()) split(rank, model);
  const at::Device body = model.parameters().front().device();
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  Training training(rank, model, options);
  training.run({.loss = [&](const MicroBatch& batch) {
    const ImageText drawn =
        image_text_of(rank, batch, kTinyUntied, rank.number("batch"), rank.number("length"));
    if (rank.is_reference()) return plain_loss(model, drawn);
    const at::Tensor hidden =
        training.forward([&] { return model.hidden_states(drawn.image.to(body), drawn.tokens); });
    return fused_loss(rank, model, hidden, drawn.tokens);
  }});
}

Expectation expect_wrong_gradient(const Cell& cell) {
  return is_set(cell, "crossing", "hidden-states") ? expect_error(device_error::kWrongGradient)
                                                   : expect_hidden();
}

/// With functorch, a gradient on the CPU raises no error for a GPU tensor: the CPU cannot stand in.
DeviceNeeds device_needs(const Cell& cell) {
  return {.count = kDevices, .cpu_stands_in = !is_set(cell, "computed_by", "functorch")};
}

std::vector<Variant> variants() {
  const ExpectationOf no_storage = always(expect_error(device_error::kNoStorage));
  return {
      buggy("gradient-left-on-head-device",
            "the loss computes on the head's device and leaves the gradients there",
            "gradients=left", expect_wrong_gradient),
      buggy("forward-mixes-devices",
            "the loss moves nothing: its forward multiplies tensors of two devices",
            "inputs=not-moved", always(expect_error(device_error::kMixed))),
      buggy("functional-gradient",
            "functorch computes the gradients in wrappers without storage, which cannot be moved",
            "computed_by=functorch gradients=left", no_storage),
      latent("on-one-device", "the same loss with body and head on one device",
             "split=no gradients=left"),
      fixed("hidden-moved-before",
            "hidden states are moved before the loss: autograd moves the gradient back",
            "inputs=moved-before"),
      fixed("gradient-moved-back", "the loss moves each gradient to the device of its input",
            "gradients=moved-back"),
      wrong_fix("functional-gradient-moved-back",
                "functorch fails before there is a gradient to move back",
                "computed_by=functorch gradients=moved-back", no_storage),
      fixed("functional-hidden-moved-before",
            "hidden states are moved before functorch differentiates",
            "computed_by=functorch inputs=moved-before"),
      reference(
          "reference",
          "one process on one device, torch's cross-entropy: the mean of all shards' gradients"),
  };
}

}  // namespace

Scenario loss_gradient_on_head_device() {
  return {
      .summary =
          "A split model's fused loss returns the hidden states' gradient on the head's device: "
          "the autograd engine refuses it.",
      .origin =
          {"unsloth", "unslothai/unsloth#3809 and unslothai/unsloth-zoo#423",
           "the model with its head on another device, the chunked cross-entropy, both repairs",
           "torch.compile: its \"Cannot access storage of TensorWrapper\" came from a trace with "
           "fake tensors; here functorch's gradient crosses devices in the real engine"},
      .variants = variants(),
      .worlds = worlds_from(1),
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs = device_needs,
      .axes = {{"crossing", {"hidden-states", "logit-scale"}, "hidden-states"},
               {"head", {"trained", "frozen"}, "trained"},
               rank_axis("chunks", {"1", "3", "4"}, "4"),
               {"batch", {"1", "2"}, "2"},
               {"length", {"7", "8"}, "7"},
               accumulation_axis(),
               switch_axis("prior"),
               switch_axis("bucket_view", /*in_reference=*/false),
               dtype_axis({"bfloat16"})},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
