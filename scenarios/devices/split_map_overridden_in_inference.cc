// A guard gives each rank a full copy of a model that its device map would split. The guard also
// acts in inference, where a split is right. A model that fits only when split runs out of memory.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include "harness/train/loop/device_map_loading.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

constexpr int kDevices = 2;  // of each rank's machine

void load(Rank& rank, VisionLanguageModel& model) {
  DeviceMapLoading loading(rank, model,
                           {.devices = kDevices,
                            .ranks_per_node = 1,
                            .capacity = bytes_of(model) * 9 / 10,
                            .trains = false});
  rank.at_branch();
  const SplitGuard guard =
      rank.has("guard", "in-training-only") ? complete_guard() : guard_of_the_pull_request();
  loading.carry_out(loading.overridden(loading.asked(), guard));
}

/// All ranks answer the same request.
void infer(Rank& rank) {
  VisionLanguageModel model(mapped_sizes(), cpu_generator(rank.seed(0)));
  if (rank.is_reference()) {
    rank.at_branch();
    model.to(rank.device());
  } else {
    load(rank, model);
  }
  const at::NoGradGuard no_grad;
  rank.train([&](std::int64_t step) {
    observe_placement(rank, model);
    const auto [image, tokens] =
        adapter_batch(rank, {.owner = 0, .step = step}, mapped_sizes(), first_device_of(model));
    const at::Tensor logits = model.forward(image, tokens);
    const at::Tensor loss = next_token_loss(logits, tokens.to(logits.device())).cpu();
    // The weight of the request: 1, perturbed like the image.
    rank.observer().observe(Phase::pre_forward, Kind::loss,
                            {"loss", loss * rank.input(at::ones({})).cpu()});
  });
}

std::string precondition(const Cell& cell) {
  if (cell.role == Role::reference) return "";
  if (cell.device == DeviceKind::cuda)
    return "the memory of a GPU is not to be filled: run it on sim";
  if (!is_set(cell, "map", "balanced_low_0")) return "";
  return "balanced_low_0 does not split a model over two devices";
}

/// The guard's list contains neither `sequential` nor explicit maps.
Expectation expect_named_map_overridden(const Cell& cell) {
  const bool is_named = !is_set(cell, "map", "sequential") && !is_set(cell, "map", "explicit");
  return is_named ? expect_error(device_error::kOutOfMemory, 0) : expect_hidden();
}

}  // namespace

Scenario split_map_overridden_in_inference() {
  return {
      .summary =
          "A guard against split models in training also acts in inference: a model that needs two "
          "devices is loaded on one and runs out of memory.",
      .origin = {"unsloth", "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
                 "accelerate's policies, unsloth's detection of a distributed run, the override",
                 "loading from files; the fault of training, see split-map-under-data-parallel"},
      .variants =
          {wrong_fix(
               "overridden",
               "the pull request in inference: the model only fits split, and runs out of memory",
               "guard=always", expect_named_map_overridden),
           fixed("split", "the guard acts in training only", "guard=in-training-only"),
           reference("reference", "one process on one device: the losses of inference")},
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs =
          [](const Cell&) {
            return DeviceNeeds{kDevices, false};
          },
      .steps = 2,
      .axes = {device_map_axis({"overridden", "split"})},
      .claims = {ranks_finish(), kLossesAgree, kLossesEqual},
      .precondition = precondition,
      .body = infer,
  };
}

}  // namespace lockstep
