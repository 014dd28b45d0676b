// A device map puts 8-bit weights on one device while the rank trains adapters on another. The
// weights cannot be moved, and a check rejects the model before training.

#include "harness/train/loop/device_map_loading.h"
#include "harness/train/placement/quantised_weights.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

constexpr const char* kOwnCheck = "Lockstep's own check: the quantised weights of";
constexpr const char* kAcceleratesWords =
    "has been loaded in 8-bit or 4-bit precision on a different device";

VisionLanguageOptions quantised_sizes() {
  VisionLanguageOptions sizes = mapped_sizes();
  sizes.lora->quantises_base = true;
  return sizes;
}

DeviceMapRequest request_of(Rank& rank, const DeviceMapLoading& loading) {
  rank.at_branch();
  if (rank.has("answer", "first-device")) return loading.all_on_first_device();
  if (rank.has("answer", "carried-out")) return loading.asked();
  return loading.overridden(loading.asked(), complete_guard());
}

void train(Rank& rank) {
  VisionLanguageModel model(quantised_sizes(), cpu_generator(rank.seed(0)));
  if (!rank.is_reference()) {
    DeviceMapLoading loading(rank, model,
                             {.devices = rank.world_size(), .ranks_per_node = rank.world_size()});
    loading.carry_out(request_of(rank, loading));
    check_quantised_weights(model, loading.own_device());
  }
  train_mapped_model(rank, model);
}

std::vector<Variant> variants() {
  // Only the first rank's weights are on its training device. It waits for the others, which all
  // fail.
  const ExpectationOf others_refused = always(expect_error(kAcceleratesWords, 0));
  return {
      buggy("split-over-all",
            "weights on other devices than the training device: Lockstep's own check refuses",
            "answer=carried-out", always(expect_error(kOwnCheck, 0))),
      buggy("first-device",
            "every rank's copy on the first device: refused on all ranks except the first",
            "answer=first-device", others_refused),
      fixed("overridden", "a full copy per rank", "answer=overridden"),
      reference("reference", "one process on one device: the mean of all shards' gradients"),
  };
}

}  // namespace

Scenario quantised_weights_off_training_device() {
  return {
      .summary =
          "A device map puts 8-bit weights on another device than the rank's training device: a "
          "check refuses the model.",
      .origin =
          {"unsloth", "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
           "accelerate's policies, unsloth's detection of a distributed run, 8-bit weights",
           "bitsandbytes, 4-bit weights, loading from files; accelerate's own check of quantised "
           "weights: ours raises its words"},
      .variants = variants(),
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs = device_per_rank,
      .steps = 2,
      .axes = {device_map_axis({"split-over-all", "overridden"}), accumulation_axis()},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
