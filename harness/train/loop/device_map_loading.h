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

// What scenarios share in which a user's device map, or a helper, decides where a model is loaded.

/// A vision-language model of frozen weights, which fill the memory, and small adapters, which are
/// trained. Its head's weight is the embedding's.
VisionLanguageOptions frozen_with_adapters(std::int64_t text, std::int64_t blocks);

/// A micro-batch of two images and texts, of as many tokens as the model takes.
ImageText adapter_batch(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        at::Device device);

/// `training_options`, with a learning rate that suits adapters, and without DDP's first broadcast
/// of the parameters: a device has no room for a second copy.
TrainingOptions adapter_training_options(const Rank& rank);

/// The model of the scenarios about device maps: with blocks enough to be divided.
VisionLanguageOptions mapped_sizes();

/// Where the first parameter of a model is, and its input goes.
at::Device first_device_of(const Module& model);

/// Trains the adapters of a model of `mapped_sizes` where it lies. The loss computes on the device
/// of the head's weight, which is the first, and leaves the gradient of the hidden states there.
void train_mapped_model(Rank& rank, VisionLanguageModel& model);

/// All maps that a user can ask for, as an axis called `map` of `variants`.
Axis device_map_axis(std::vector<std::string> variants);

struct DeviceMapLoadingOptions {
  int devices = 0;                            ///< of a machine
  int ranks_per_node = 0;                     ///< that share them
  std::optional<std::int64_t> capacity = {};  ///< bytes of a device; absent: without limit
  bool trains = true;
};

/// One rank that loads its model, in the steps that a loader is made of. Keeps references to both.
class DeviceMapLoading {
 public:
  /// Opens the devices of this rank's machine and meets its peers.
  DeviceMapLoading(Rank& rank, Module& model, const DeviceMapLoadingOptions& options);

  /// What the user asked for, on the axis `map`, `named_map` or `unnamed_map`; the policy `none`
  /// where the cell has none of them.
  const DeviceMapRequest& asked() const { return asked_; }

  /// Every rank's full copy on the first device.
  DeviceMapRequest all_on_first_device() const;

  /// What `guard` stops becomes a full copy on this rank's device, with a warning on stderr.
  DeviceMapRequest overridden(const DeviceMapRequest& request, const SplitGuard& guard) const;

  /// Throws Refusal for what `guard` stops.
  void refuse(const SplitGuard& guard) const { refuse_split(asked_, guard, run_); }

  /// Places the model, one rank after the other. A model that no map places is moved to
  /// `own_device`, as a trainer does.
  void carry_out(const DeviceMapRequest& request);

  /// The device that this rank is to train on.
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
