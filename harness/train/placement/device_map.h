#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/train/nn/module.h"

namespace lockstep {

/// How the parts of a model are assigned to devices, following `device_map` of transformers.
enum class DevicePolicy {
  none,            ///< not placed: the model stays on its device, and the trainer moves it
  automatic,       ///< "auto", which is `balanced` today
  balanced,        ///< about the same bytes on every device
  balanced_low_0,  ///< the first device gets only the remainder of the others
  sequential,      ///< the devices are filled in order
  explicit_map,    ///< the user assigns each part
};

/// The user's spelling: "auto", ..., "none".
std::string to_string(DevicePolicy policy);

/// A part of a model, or one of its tensors, and its device. The part "" is the whole model.
struct DeviceMapEntry {
  std::string name;
  at::Device device;
  bool operator==(const DeviceMapEntry& other) const = default;
};

/// Assignment of a model to devices. For each part the entry with the longest name counts that
/// names the part or a module around it. Names are compared by components, so "blocks.1" does not
/// contain "blocks.10". Empty: no placement.
using DeviceMap = std::vector<DeviceMapEntry>;

/// In the form {"": "cuda:0"}, in the order of the map; {} if it is empty.
std::string to_string(const DeviceMap& map);

/// Device of the part or tensor `name`; empty if no entry contains it.
std::optional<at::Device> device_of(const DeviceMap& map, std::string_view name);

/// The user's request.
struct DeviceMapRequest {
  DevicePolicy policy = DevicePolicy::none;
  DeviceMap map = {};  ///< only for `explicit_map`
};

/// Parses the name of a policy, or comma-separated pairs `name=device`. "=cuda:0" puts the whole
/// model on one device, "vision=cuda:0,language=cuda:1" splits it. Throws Error (usage) for other
/// words, for a device that torch does not know and for a repeated name.
DeviceMapRequest parse_device_map(std::string_view text);

/// The user's spelling, for messages: auto, or {"": "cuda:0"}.
std::string to_string(const DeviceMapRequest& request);

/// The name of a part in the whole model: "blocks.0" in "language" is "language.blocks.0".
std::string joined(std::string_view outer, std::string_view name);

/// Bytes of the parameters and buffers of `module` and its children; a shared tensor counts once.
std::int64_t bytes_of(const Module& module);

/// A device and the bytes that a model may use on it.
struct DeviceCapacity {
  at::Device device;
  std::int64_t bytes = 0;
};

/// Whether the part `name` of a model must stay on one device.
using IsIndivisible = std::function<bool(const std::string& name, const Module& module)>;

/// Every block with a residual connection: `TransformerBlock` and `LanguageBlock`.
IsIndivisible residual_blocks();
/// The parts with these names. Does not check that a model has them.
IsIndivisible parts_named(std::vector<std::string> names);

struct PlacementOptions {
  std::vector<DeviceCapacity> devices = {};  ///< in the order of filling
  IsIndivisible is_indivisible = residual_blocks();
};

/// The capacities allowed by `policy`. `balanced`: every device but the last gets the total divided
/// by the devices, plus a margin, if it has that much. The margin is 1.25 times the larger of two
/// sizes: the largest indivisible part, and the mean of the modules without children.
/// `balanced_low_0` divides among one device less, and gives the first device the remainder of the
/// others. Devices without capacity count as absent; with one device left, both allow its full
/// capacity. Divisions round down. Other policies allow everything.
///
/// Source: accelerate, `get_balanced_memory`.
std::vector<DeviceCapacity> capacities_of(const Module& model, DevicePolicy policy,
                                          const PlacementOptions& options);

/// Assigns the parts of `model` by a policy other than `explicit_map`, in model order. Each part
/// goes to the current device if it fits there as a whole, and never to an earlier one. Otherwise
/// it is divided into its own tensors and its children. If it is indivisible or has no children,
/// the next device is tried instead. The first device, if it has any capacity, keeps room for the
/// largest undivided part still to come. Parts that share a tensor are placed together. The map
/// names the largest parts whose tensors are all on one device.
///
/// Gives the maps of accelerate 1.15, with two differences. It never offloads to the host or a
/// disk, and it also places buffers of a divided part. If parts of different depth share a tensor,
/// accelerate may choose another device or fail.
///
/// Throws Error (usage), naming part, bytes and each device's free bytes, when a part does not fit
/// anywhere. Source: accelerate, `infer_auto_device_map`.
DeviceMap infer_device_map(const Module& model, DevicePolicy policy,
                           const PlacementOptions& options);

/// Resolves `request` for `model`: inferred, explicit or empty. Throws Error (usage) like
/// `infer_device_map`, and for an explicit name that `model` does not have.
DeviceMap resolve_device_map(const DeviceMapRequest& request, const Module& model,
                             const PlacementOptions& options);

/// Moves every part to its device and runs it there (`Module::run_on`), so that its input follows;
/// an empty map moves nothing. For a part divided among devices, only its parts are told where to
/// run. Call it before the tensors are used.
///
/// Throws Error (usage), before it moves anything, for a name that `model` does not have, and for a
/// tensor without an entry. A c10::Error about memory or the device also names the part and its
/// bytes; the model is then partly moved.
void place(Module& model, const DeviceMap& map);

/// A training library's refusal, in its own sentence: evidence about the tested program, not an
/// error of Lockstep.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Properties of a run that a guard against divided models needs.
struct RunKind {
  bool is_distributed = false;
  bool trains = true;
};

/// The requests that a guard stops, and when.
struct SplitGuard {
  /// An explicit map counts as divided if it names more than one device.
  std::vector<DevicePolicy> policies;
  bool in_training_only = false;
  bool in_distributed_runs_only = true;

  bool stops(const DeviceMapRequest& request, const RunKind& run) const;
};

/// The pull request's guard: "auto", "balanced" and "balanced_low_0", in training and inference
/// alike; "sequential" and explicit maps slip through.
SplitGuard guard_of_the_pull_request();
/// Our guard: every policy that can divide a model, only in training.
SplitGuard complete_guard();

/// The executed request and the message to the user.
struct Overridden {
  DeviceMapRequest request;
  std::string warning;  ///< empty if nothing was changed
};

/// The pull request's answer: a request stopped by `guard` becomes `per_rank`, with a warning. The
/// warning is unsloth's, in its words (unslothai/unsloth, pull request of 31 December 2025).
Overridden override_split(const DeviceMapRequest& request, const SplitGuard& guard,
                          const RunKind& run, const DeviceMap& per_rank);

/// The answer proposed in its review: throws Refusal for a request stopped by `guard`. The
/// sentences are those proposed for unsloth, in its words.
void refuse_split(const DeviceMapRequest& request, const SplitGuard& guard, const RunKind& run);

}  // namespace lockstep
