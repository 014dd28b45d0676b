#include <fmt/format.h>

#include <algorithm>

#include "harness/train/placement/device_map.h"

namespace lockstep {

namespace {

bool can_divide(const DeviceMapRequest& request) {
  if (request.policy != DevicePolicy::explicit_map) return request.policy != DevicePolicy::none;
  return std::any_of(request.map.begin(), request.map.end(), [&](const DeviceMapEntry& entry) {
    return entry.device != request.map.front().device;
  });
}

}  // namespace

bool SplitGuard::stops(const DeviceMapRequest& request, const RunKind& run) const {
  if (in_training_only && !run.trains) return false;
  if (in_distributed_runs_only && !run.is_distributed) return false;
  return can_divide(request) &&
         std::find(policies.begin(), policies.end(), request.policy) != policies.end();
}

SplitGuard guard_of_the_pull_request() {
  return {
      .policies = {DevicePolicy::automatic, DevicePolicy::balanced, DevicePolicy::balanced_low_0}};
}

SplitGuard complete_guard() {
  return {
      .policies = {DevicePolicy::automatic, DevicePolicy::balanced, DevicePolicy::balanced_low_0,
                   DevicePolicy::sequential, DevicePolicy::explicit_map},
      .in_training_only = true};
}

Overridden override_split(const DeviceMapRequest& request, const SplitGuard& guard,
                          const RunKind& run, const DeviceMap& per_rank) {
  if (!guard.stops(request, run)) return {request, ""};
  return {
      {DevicePolicy::explicit_map, per_rank},
      fmt::format("Unsloth: Multi-GPU device splitting (device_map='{}') is not supported for "
                  "vision/multimodal models in distributed training. Using device_map={} instead "
                  "(data-parallel mode). Each GPU will load a full copy of the model.",
                  to_string(request), to_string(per_rank))};
}

void refuse_split(const DeviceMapRequest& request, const SplitGuard& guard, const RunKind& run) {
  if (!guard.stops(request, run)) return;
  throw Refusal(
      fmt::format("Unsloth: device_map='{}' is not supported for FastVisionModel in multi-GPU "
                  "training. Model splitting across GPUs causes gradient device mismatch errors. "
                  "For multi-GPU training, remove device_map or set device_map=None to use "
                  "data-parallel mode where each GPU loads a full copy of the model. Note: This "
                  "uses more VRAM per GPU but provides equivalent training to single GPU.",
                  to_string(request)));
}

}  // namespace lockstep
