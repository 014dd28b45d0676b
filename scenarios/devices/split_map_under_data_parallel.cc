// Every rank of a data-parallel run splits its model over all devices, as the user's device map
// says. Two fixes were tried: give each rank a full copy and say so, or refuse with advice.
// Versions of both leave one case open or reject one too many.

#include <cstdio>

#include "harness/train/loop/device_map_loading.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

constexpr const char* kRefused = "is not supported for FastVisionModel in multi-GPU training";

/// The user reads the advice and asks for another map.
DeviceMapRequest asked_after_refusal(Rank& rank, const DeviceMapLoading& loading) {
  try {
    loading.refuse(guard_of_the_pull_request());
  } catch (const Refusal& refusal) {
    if (rank.has("then", "nothing")) throw;
    std::fprintf(stderr, "%s\n", refusal.what());
  }
  // After a map is removed, the loader's default applies.
  return {rank.has("then", "none") ? DevicePolicy::none : DevicePolicy::sequential};
}

/// The request as the loaders change it.
DeviceMapRequest request_of(Rank& rank, const DeviceMapLoading& loading) {
  rank.at_branch();
  DeviceMapRequest request = loading.asked();
  if (rank.has("answer", "refused")) return asked_after_refusal(rank, loading);
  if (rank.has("answer", "first-device")) return loading.all_on_first_device();
  if (rank.has("answer", "overridden")) return loading.overridden(request, complete_guard());
  if (!rank.has("answer", "named-overridden")) return request;
  for (std::int64_t check = 0; check < rank.number("checks"); ++check) {
    request = loading.overridden(request, guard_of_the_pull_request());
  }
  return request;
}

void train(Rank& rank) {
  VisionLanguageModel model(mapped_sizes(), cpu_generator(rank.seed(0)));
  if (!rank.is_reference()) {
    DeviceMapLoadingOptions options{.devices = rank.world_size(),
                                    .ranks_per_node = rank.world_size()};
    // Room for one copy and its training, but not for a second copy.
    if (rank.has("devices_hold", "one-copy")) options.capacity = bytes_of(model) * 19 / 10;
    DeviceMapLoading loading(rank, model, options);
    loading.carry_out(request_of(rank, loading));
  }
  train_mapped_model(rank, model);
}

/// With two devices, `balanced_low_0` places nothing on the first.
Expectation expect_split(const Cell& cell) {
  const bool is_whole = is_set(cell, "map", "balanced_low_0") && cell.world_size == 2;
  return is_whole ? expect_hidden() : expect_error(device_error::kWrongGradient);
}

Expectation expect_wrong_gradient(const Cell&) {
  return expect_error(device_error::kWrongGradient);
}

Expectation expect_refusal(const Cell&) { return expect_error(kRefused, 0); }

Expectation expect_full_device(const Cell& cell) {
  if (cell.device == "cuda") {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  return expect_error(device_error::kOutOfMemory, 0);
}

std::vector<Variant> variants() {
  return {
      {"split-over-all", Role::buggy, "the user's device map is carried out on every rank",
       "answer=carried-out", expect_split},
      {"named-maps-overridden", Role::wrong_fix,
       "the pull request: auto, balanced and balanced_low_0 become a full copy per rank, and the "
       "maps that its list does not name slip through",
       "answer=named-overridden checks=1", expect_wrong_gradient},
      {"overridden", Role::fixed,
       "the same for every map that can split: a full copy per rank, with a warning",
       "answer=overridden devices_hold=one-copy"},
      {"overridden-twice", Role::latent,
       "the pull request's first version, which checks in both loaders: the second check finds a "
       "map that does not split",
       "answer=named-overridden checks=2"},
      {"refused", Role::fixed, "the error that was proposed instead, which says what to do",
       "answer=refused then=nothing devices_hold=one-copy", expect_refusal},
      {"refused-then-none", Role::fixed,
       "the user sets device_map=None as it says: the trainer moves a full copy",
       "answer=refused then=none devices_hold=one-copy"},
      {"refused-then-removed", Role::wrong_fix,
       "the user removes device_map as it says too: the default is sequential, which splits",
       "answer=refused then=removed", expect_wrong_gradient},
      {"first-device", Role::wrong_fix,
       "the other advice, device_map={\"\": \"cuda:0\"}: every rank's full copy on one device",
       "answer=first-device devices_hold=one-copy", expect_full_device},
      {"reference", Role::reference, "one process on the CPU: the mean of all shards' gradients"},
  };
}

std::vector<Axis> axes() {
  return {
      device_map_axis({"split-over-all", "overridden"}),
      {"named_map",
       {"auto", "balanced", "balanced_low_0"},
       "auto",
       {"overridden-twice", "refused", "refused-then-none", "refused-then-removed"}},
      {"unnamed_map", {"sequential", "explicit"}, "sequential", {"named-maps-overridden"}},
      {"accumulation", {"1", "2"}, "1"},
  };
}

}  // namespace

Scenario split_map_under_data_parallel() {
  return {
      .id = "split-map-under-data-parallel",
      .summary =
          "Every rank of a data-parallel run splits its model over all devices, because it follows "
          "a device map that was meant for one process.",
      .provenance = {.project = "unsloth",
                     .link = "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
                     .kept = "accelerate's policies, unsloth's detection of a distributed run, the "
                             "override and its list of names, the proposed refusal word by word, "
                             "adapters on frozen weights",
                     .left_out = "loading from files; 8-bit weights, which are "
                                 "quantised-weights-off-training-device, and inference, which is "
                                 "split-map-overridden-in-inference"},
      .worlds = worlds_from(2),
      .devices = {"sim", "cuda"},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{cell.world_size, false};
          },
      .steps = 2,
      .axes = axes(),
      .variants = variants(),
      .claims = {ranks_finish(), kGradientsAgree, kParametersAgree, kGradientsEqual,
                 kParametersEqual},
      .tables = {},
      .body = train,
  };
}

}  // namespace lockstep
