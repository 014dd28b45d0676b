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

std::vector<Variant> variants() {
  const ExpectationOf wrong_gradient = always(expect_error(device_error::kWrongGradient));
  return {
      buggy("split-over-all", "every rank applies the user's device map and splits its model",
            "answer=carried-out", expect_split),
      wrong_fix(
          "named-maps-overridden",
          "the pull request overrides auto and balanced maps; maps not on its list still split",
          "answer=named-overridden checks=1", wrong_gradient),
      fixed("overridden", "every map that can split becomes a full copy per rank, with a warning",
            "answer=overridden devices_hold=one-copy"),
      latent("overridden-twice",
             "the pull request's first version checks in both loaders; the second finds no split",
             "answer=named-overridden checks=2"),
      fixed("refused", "the proposed error, which tells the user how to fix it",
            "answer=refused then=nothing devices_hold=one-copy", always(expect_error(kRefused, 0))),
      fixed("refused-then-none",
            "the user sets device_map=None as advised: the trainer moves a full copy",
            "answer=refused then=none devices_hold=one-copy"),
      wrong_fix("refused-then-removed",
                "the user removes device_map as advised: the default, sequential, splits too",
                "answer=refused then=removed", wrong_gradient),
      wrong_fix("first-device",
                "the other advice, device_map={\"\": \"cuda:0\"}: all ranks' copies on one device",
                "answer=first-device devices_hold=one-copy", expect_full_device),
      reference("reference", "one process on one device: the mean of all shards' gradients"),
  };
}

}  // namespace

Scenario split_map_under_data_parallel() {
  return {
      .summary =
          "Every rank of a data-parallel run splits its model over all devices, because it applies "
          "a device map made for one process.",
      .origin =
          {"unsloth", "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
           "accelerate's policies, unsloth's detection, the override, the refusal word by word",
           "loading from files; 8-bit weights and inference, which have scenarios of their own"},
      .variants = variants(),
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs = device_per_rank,
      .steps = 2,
      .axes = {device_map_axis({"split-over-all", "overridden"}),
               {"named_map",
                {"auto", "balanced", "balanced_low_0"},
                "auto",
                {"overridden-twice", "refused", "refused-then-none", "refused-then-removed"}},
               {"unnamed_map", {"sequential", "explicit"}, "sequential", {"named-maps-overridden"}},
               accumulation_axis()},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
