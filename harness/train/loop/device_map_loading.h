#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/loop/batches.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/placement/distributed_environment.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

// Shared by scenarios that place a model by a user's device map or a helper.

/// A vision-language model of frozen weights, which fill the memory, and small trained adapters.
/// Its head's weight is the embedding's.
VisionLanguageOptions frozen_with_adapters(std::int64_t text, std::int64_t blocks);

/// A micro-batch of two images and texts, with as many tokens as the model accepts.
ImageText adapter_batch(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        at::Device device);

/// `training_options`, with a learning rate for adapters, and without DDP's first broadcast of the
/// parameters: a device has no room for a second copy.
TrainingOptions adapter_training_options(const Rank& rank);

/// The model of the scenarios about device maps, with enough blocks to divide.
VisionLanguageOptions mapped_sizes();

/// The device of a model's first parameter, and of its input.
at::Device first_device_of(const Module& model);

/// Trains the adapters of a model of `mapped_sizes` on its devices. The loss computes on the first
/// device, with the head's weight, and puts the gradient of the hidden states there.
void train_mapped_model(Rank& rank, VisionLanguageModel& model);

/// The first device of ranks that share it is full while the model is placed. Not applicable on a
/// GPU.
Expectation expect_full_device(const Cell& cell);

/// All maps that a user can request, as an axis called `map` of `variants`.
Axis device_map_axis(std::vector<std::string> variants);

struct DeviceMapLoadingOptions {
  int devices = 0;                            ///< of a machine
  int ranks_per_node = 0;                     ///< that share the devices
  std::optional<std::int64_t> capacity = {};  ///< bytes of a device; absent: no limit
  bool trains = true;
};

/// One rank that loads its model, in the steps of a loader. Keeps references to both.
class DeviceMapLoading {
 public:
  /// Opens the devices of this rank's machine and joins its peers.
  DeviceMapLoading(Rank& rank, Module& model, const DeviceMapLoadingOptions& options);

  /// The user's request on the axis `map`, `named_map` or `unnamed_map`; the policy `none` if the
  /// cell has none of these axes.
  const DeviceMapRequest& asked() const { return asked_; }

  /// Every rank's full copy on the first device.
  DeviceMapRequest all_on_first_device() const;

  /// Replaces a request stopped by `guard` with a full copy on this rank's device, and warns on
  /// stderr.
  DeviceMapRequest overridden(const DeviceMapRequest& request, const SplitGuard& guard) const;

  /// Throws Refusal if `guard` stops the request.
  void refuse(const SplitGuard& guard) const { refuse_split(asked_, guard, run_); }

  /// Places the model, one rank after the other. A model without a map moves to `own_device`, as in
  /// a trainer.
  void carry_out(const DeviceMapRequest& request);

  /// The training device of this rank.
  at::Device own_device() const;

 private:
  PlacementOptions room_for(const DeviceMapRequest& request) const;

  Rank& rank_;
  Module& model_;
  std::vector<at::Device> devices_;
  DistributedEnvironment environment_;
  DeviceMapRequest asked_;
  RunKind run_;
};

}  // namespace lockstep
