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

/// How the parts of a model find their devices, as `device_map` of transformers says it.
enum class DevicePolicy {
  none,            ///< nothing is placed: the model stays where it was made, the trainer moves it
  automatic,       ///< "auto", which is `balanced` today
  balanced,        ///< about as many bytes on every device
  balanced_low_0,  ///< the first device gets only what the others cannot take
  sequential,      ///< the devices are filled in order
  explicit_map,    ///< somebody wrote down which part goes where
};

/// What a user writes: "auto", ..., "none".
std::string to_string(DevicePolicy policy);

/// A part of a model, or one of its tensors, and where it goes. The part "" is the whole model.
struct DeviceMapEntry {
  std::string name;
  at::Device device;
  bool operator==(const DeviceMapEntry& other) const = default;
};

/// Where a model goes. For each part the entry with the longest name that is the part's or that of
/// something around it counts; names are compared word by word, so that "blocks.1" does not hold
/// "blocks.10". Empty: nothing is placed.
using DeviceMap = std::vector<DeviceMapEntry>;

/// As {"": "cuda:0"}, in the order of the map; {} when it is empty.
std::string to_string(const DeviceMap& map);

/// Of the part or tensor called `name`; none where no entry holds it.
std::optional<at::Device> device_of(const DeviceMap& map, std::string_view name);

/// What a user asked for.
struct DeviceMapRequest {
  DevicePolicy policy = DevicePolicy::none;
  DeviceMap map = {};  ///< of `explicit_map` alone
};

/// Reads the name of a policy, or pairs `name=device` with commas between them: "=cuda:0" is the
/// whole model on one device, "vision=cuda:0,language=cuda:1" is split. Throws Error (usage) for
/// other words, for a device that torch does not know and for a name that comes twice.
DeviceMapRequest parse_device_map(std::string_view text);

/// What the user wrote, for messages: auto, or {"": "cuda:0"}.
std::string to_string(const DeviceMapRequest& request);

/// The name of a part in the whole model: "blocks.0" in "language" is "language.blocks.0".
std::string joined(std::string_view outer, std::string_view name);

/// Bytes of the parameters and buffers of `module` and its children; a tensor that is in several
/// places counts once.
std::int64_t bytes_of(const Module& module);

/// A device and how many bytes of it a model may take.
struct DeviceCapacity {
  at::Device device;
  std::int64_t bytes = 0;
};

/// Whether the part of a model called `name` has to stay on one device.
using IsIndivisible = std::function<bool(const std::string& name, const Module& module)>;

/// Every block with a residual connection: `TransformerBlock` and `LanguageBlock`.
IsIndivisible residual_blocks();
/// The parts with these names. Whether a model has them is not checked.
IsIndivisible parts_named(std::vector<std::string> names);

struct PlacementOptions {
  std::vector<DeviceCapacity> devices = {};  ///< in the order in which they are filled
  IsIndivisible is_indivisible = residual_blocks();
};

/// What `policy` leaves of the capacities. `balanced`: every device but the last gets the total
/// divided by the devices, and room of 1.25 times the larger of the largest indivisible part and
/// the mean of the modules without children, if it has that much. `balanced_low_0` divides among
/// one device less, and gives the first device what the others cannot take. Devices without
/// capacity count as absent; with one device left, both leave it all it has. Divisions round down.
/// Other policies leave everything.
///
/// Source: accelerate, `get_balanced_memory`.
std::vector<DeviceCapacity> capacities_of(const Module& model, DevicePolicy policy,
                                          const PlacementOptions& options);

/// Where the parts of `model` go by a policy other than `explicit_map`: in the order of the model,
/// each on the present device if that holds it as a whole, and then never on an earlier one. What
/// does not fit is divided into its own tensors and its children, unless it is indivisible or has
/// no children: then the next device is tried. On the first device, if it has any capacity, room is
/// kept for the largest part still to come that is not divided. Parts that share a tensor are
/// placed together. The map names the largest parts whose tensors are all on one device.
///
/// The maps of accelerate 1.15, but that nothing is offloaded to the host or a disk, and that
/// buffers of a divided part are placed too. Where a tensor is shared by parts of different depth,
/// accelerate may choose otherwise, or fail.
///
/// Throws Error (usage), naming part, bytes and what each device had left, when a part fits
/// nowhere. Source: accelerate, `infer_auto_device_map`.
DeviceMap infer_device_map(const Module& model, DevicePolicy policy,
                           const PlacementOptions& options);

/// What `request` means for `model`: inferred, as written, or empty. Throws Error (usage) as
/// `infer_device_map` does, and for a written name that `model` does not have.
DeviceMap resolve_device_map(const DeviceMapRequest& request, const Module& model,
                             const PlacementOptions& options);

/// Moves every part to its device, and has it run there (`Module::run_on`), so that its input
/// follows; an empty map moves nothing. A part that is divided among devices is not told where to
/// run: its parts are. Before anything else uses the tensors.
///
/// Throws Error (usage), before anything is moved, for a name that `model` does not have, and for a
/// tensor that no entry holds. A c10::Error, for want of memory or of the device, says additionally
/// which part of how many bytes was being placed; the model is then partly moved.
void place(Module& model, const DeviceMap& map);

/// What a training library says no to, in a sentence of its own: evidence about the program that is
/// run, and no error of Lockstep.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a guard against divided models needs to know of a run.
struct RunKind {
  bool is_distributed = false;
  bool trains = true;
};

/// Which requests a guard stops, and when.
struct SplitGuard {
  /// A written map counts as divided where it names more than one device.
  std::vector<DevicePolicy> policies;
  bool in_training_only = false;
  bool in_distributed_runs_only = true;

  bool stops(const DeviceMapRequest& request, const RunKind& run) const;
};

/// The pull request's: "auto", "balanced" and "balanced_low_0", in training and inference alike;
/// "sequential" and written maps slip through.
SplitGuard guard_of_the_pull_request();
/// Ours: every policy that can divide a model, in training only.
SplitGuard complete_guard();

/// A request that is carried out, and what the user is told.
struct Overridden {
  DeviceMapRequest request;
  std::string warning;  ///< empty when nothing was changed
};

/// The pull request's answer: what `guard` stops becomes `per_rank`, with a warning. The warning is
/// unsloth's, in its words (unslothai/unsloth, pull request of 31 December 2025).
Overridden override_split(const DeviceMapRequest& request, const SplitGuard& guard,
                          const RunKind& run, const DeviceMap& per_rank);

/// The answer that was proposed in its review: throws Refusal for what `guard` stops. The sentences
/// are those proposed for unsloth, in its words.
void refuse_split(const DeviceMapRequest& request, const SplitGuard& guard, const RunKind& run);

}  // namespace lockstep
