// A device map leaves the body of a model on one device and its head on another. A fused loss
// computes on the head's device, gradients included, and hands the hidden states' gradient back
// from there: the autograd engine refuses it. A gradient without dimensions it moves, and says
// nothing.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr VisionLanguageOptions kSizes = [] {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.language_blocks = 1;
  sizes.tied_head = false;
  return sizes;
}();
constexpr int kDevices = 2;

bool crosses(const Cell& cell, std::string_view what) { return is_set(cell, "crossing", what); }

/// With a factor for its logits, 0-dim, as CLIP's, where that is what crosses.
class Model : public VisionLanguageModel {
 public:
  explicit Model(const Rank& rank) : VisionLanguageModel(kSizes, cpu_generator(rank.seed(0))) {
    if (crosses(rank.cell(), "logit-scale")) {
      logit_scale = register_parameter("logit_scale", at::full({}, 1.25));
    }
    if (is_set(rank.cell(), "head", "frozen")) at::Tensor(head_weight()).requires_grad_(false);
    to(dtype_of(rank.cell()));
  }

  at::Tensor logit_scale;  ///< undefined where there is none
};

/// Body first.
std::vector<at::Device> devices_of(Rank& rank) {
  std::vector<at::Device> devices = open_devices(rank, {.count = kDevices});
  if (rank.is("on-one-device")) devices[1] = devices[0];
  return devices;
}

struct Way {
  FusedCrossEntropyOptions fused;
  bool moves_before = false;  ///< what goes into the function is moved to the head's device
};

/// Where variants part, but for how many devices there are.
Way way_of(Rank& rank) {
  Way way{.fused = {.chunks = number_on(rank.cell(), "chunks"), .returns_gradients = false}};
  way.fused.is_functional = is_about(rank.cell(), "functional");
  if (rank.is("gradient-left-on-head-device") || rank.is("functional-gradient")) return way;
  if (rank.is("forward-mixes-devices")) way.fused.moves_inputs = false;
  if (rank.is("gradient-moved-back") || rank.is("functional-gradient-moved-back")) {
    way.fused.returns_gradients = true;
  }
  if (rank.is("hidden-moved-before") || rank.is("functional-hidden-moved-before")) {
    way.moves_before = true;
  }
  return way;
}

/// Autograd records what is moved before the function, and moves its gradient back. Where the scale
/// is what crosses, hidden states are moved anyway.
at::Tensor fused_loss(const Model& model, at::Tensor hidden, const at::Tensor& labels,
                      const Way& way) {
  const at::Tensor& head = model.head_weight();
  at::Tensor scale = model.logit_scale;
  if (way.moves_before && scale.defined()) scale = scale.to(head.device());
  if (way.moves_before || scale.defined()) hidden = hidden.to(head.device());
  return fused_cross_entropy(hidden, head, scale, labels, way.fused);
}

at::Tensor plain_loss(Model& model, const ImageText& batch) {
  at::Tensor logits = model.forward(batch.image, batch.tokens);
  if (model.logit_scale.defined()) logits = logits * model.logit_scale;
  return next_token_loss(logits, batch.tokens);
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  const auto draw = [&](const MicroBatch& batch) {
    return image_text_of(rank, batch, kSizes, number_on(cell, "batch"), number_on(cell, "length"));
  };
  Model model(rank);
  if (rank.is("reference")) {
    train_in_micro_batches(
        rank, model, micro_batch_options(cell),
        [&](const MicroBatch& batch, auto*) { return plain_loss(model, draw(batch)); });
    return;
  }
  const std::vector<at::Device> devices = devices_of(rank);
  place(model, {{"", devices[0]}, {"language.head", devices[1]}});
  const Way way = way_of(rank);
  MicroBatchOptions options = micro_batch_options(cell);
  options.wraps = cell.world_size > 1;
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const auto [image, tokens] = draw(batch);
    const auto forward = [&] {
      return std::vector{model.hidden_states(image.to(devices[0]), tokens)};
    };
    const at::Tensor hidden = (ddp ? ddp->forward(forward) : forward()).front();
    return fused_loss(model, hidden, tokens, way);
  });
}

Expectation expect(const Cell& cell) {
  if (cell.variant == "forward-mixes-devices") return expect_error(device_error::kMixed);
  if (cell.variant == "functional-gradient" || cell.variant == "functional-gradient-moved-back") {
    return expect_error(device_error::kNoStorage);
  }
  if (cell.variant != "gradient-left-on-head-device") return {};
  return crosses(cell, "hidden-states") ? expect_error(device_error::kWrongGradient)
                                        : expect_hidden();
}

/// A gradient in a wrapper goes from a GPU to the CPU without an error.
DeviceNeeds device_needs(const Cell& cell) {
  return {.count = kDevices, .cpu_stands_in = !is_about(cell, "functional")};
}

std::vector<Variant> variants() {
  return {
      {.name = "gradient-left-on-head-device",
       .role = Role::buggy,
       .summary = "the function computes on the head's device and leaves the gradients there"},
      {.name = "forward-mixes-devices",
       .role = Role::buggy,
       .summary = "the function moves nothing: its forward multiplies tensors of two devices"},
      {.name = "functional-gradient",
       .role = Role::buggy,
       .summary = "the function asks functorch for the gradients, which go from device to device "
                  "in wrappers without storage"},
      {.name = "on-one-device",
       .role = Role::latent,
       .summary = "the first one, with body and head on one device"},
      {.name = "hidden-moved-before",
       .role = Role::fixed,
       .summary = "what goes into the function is moved before: autograd moves the gradient back"},
      {.name = "gradient-moved-back",
       .role = Role::fixed,
       .summary = "the function remembers where its inputs were and moves the gradients there"},
      {.name = "functional-gradient-moved-back",
       .role = Role::wrong_fix,
       .summary = "the same where functorch computes them: it fails before there is one to move"},
      {.name = "functional-hidden-moved-before",
       .role = Role::fixed,
       .summary = "what functorch is asked to differentiate is on one device"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process on the CPU and torch's cross-entropy: the mean of all shards' "
                  "gradients",
       .without = {"chunks", "bucket_view"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"crossing", {"hidden-states", "logit-scale"}, "hidden-states"},
      {"head", {"trained", "frozen"}, "trained"},
      {"chunks", {"1", "3", "4"}, "4"},
      {"batch", {"1", "2"}, "2"},
      {"length", {"7", "8"}, "7"},
      {"accumulation", {"1", "2"}, "1"},
      {"prior", {"off", "on"}, "off"},
      {"bucket_view", {"off", "on"}, "off"},
      {"dtype", {"float32", "float64", "bfloat16"}, "float32"},
  };
}

}  // namespace

Scenario loss_gradient_on_head_device() {
  return {
      .id = "loss-gradient-on-head-device",
      .summary =
          "A split model's fused loss computes gradients on the head's device and returns the "
          "hidden states' from there: the autograd engine refuses it.",
      .provenance = {.project = "unsloth",
                     .link = "unslothai/unsloth#3809 and unslothai/unsloth-zoo#423",
                     .kept = "a vision-language model with its head on another device, the chunked "
                             "cross-entropy with gradients computed in forward, both repairs",
                     .left_out =
                         "torch.compile: there \"Cannot access storage of TensorWrapper\" came "
                         "out of a trace with fake tensors; here functorch's gradient goes "
                         "from device to device in the real engine, which asks it for its "
                         "storage"},
      .worlds = worlds_from(1),
      .devices = {"sim", "cuda"},
      .device_needs = device_needs,
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
