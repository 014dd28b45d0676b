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

Expectation expect_own_check(const Cell&) { return expect_error(kOwnCheck, 0); }

/// Only the first rank's weights are on its training device. It waits for the others, which all
/// fail.
Expectation expect_others_refused(const Cell&) { return expect_error(kAcceleratesWords, 0); }

std::vector<Variant> variants() {
  return {
      {"split-over-all", Role::buggy,
       "the weights on other devices than the training one: refused, by a check of ours",
       "answer=carried-out", expect_own_check},
      {"first-device", Role::buggy,
       "every rank's copy on the first device: refused by a check of ours on all ranks but the "
       "first, as in the pull request's second error",
       "answer=first-device", expect_others_refused},
      {"overridden", Role::fixed, "a full copy per rank", "answer=overridden"},
      {"reference", Role::reference, "one process on the CPU: the mean of all shards' gradients"},
  };
}

}  // namespace

Scenario quantised_weights_off_training_device() {
  return {
      .id = "quantised-weights-off-training-device",
      .summary =
          "A device map puts 8-bit weights on another device than the one a rank trains on: a "
          "check "
          "refuses the model.",
      .provenance = {.project = "unsloth",
                     .link = "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
                     .kept = "accelerate's policies, unsloth's detection of a distributed run, "
                             "adapters on 8-bit weights",
                     .left_out = "bitsandbytes, 4-bit weights, and accelerate's own check of "
                                 "quantised weights, in the place of which stands one of ours "
                                 "that quotes its words; loading from files"},
      .worlds = worlds_from(2),
      .devices = {"sim", "cuda"},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{cell.world_size, false};
          },
      .steps = 2,
      .axes = {device_map_axis({"split-over-all", "overridden"}),
               {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = {ranks_finish(), kGradientsAgree, kParametersAgree, kGradientsEqual,
                 kParametersEqual},
      .tables = {},
      .body = train,
  };
}

}  // namespace lockstep
