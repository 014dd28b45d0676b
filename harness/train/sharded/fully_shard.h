#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// What fully_shard is asked for; the defaults are FSDP2's.
struct FullyShardOptions {
  /// Whether a group releases its parameters when its forward ends, and gathers them again for
  /// backward. Absent: all do but the root's, which backward would need at once.
  std::optional<bool> reshard_after_forward = {};
  /// In which the model computes and parameters are gathered; inputs of wrapped modules are cast to
  /// it. Absent: the parameters' own.
  std::optional<at::ScalarType> param_dtype = {};
  /// In which gradients are reduced; they are then cast to the dtype of the shards. Absent: that in
  /// which the model computes.
  std::optional<at::ScalarType> reduce_dtype = {};
};

/// What is said where a parameter is used whose group has been resharded: torch's own words, of
/// what reads it and of what makes a view of it, as linear layers do.
namespace fully_shard_error {
inline constexpr const char* kReleased =
    "The tensor has a non-zero number of elements, but its data is not allocated yet.";
inline constexpr const char* kViewOfReleased = "are out of bounds for storage of size 0";
}  // namespace fully_shard_error

/// torch.distributed.fsdp.fully_shard (FSDP2), in C++: the same collectives of the same sizes in
/// the same order, from the same places in autograd's engine. A test holds it against Python's.
///
/// The root and each module of `wrapped` has a group of parameters: its own and those of its parts,
/// without what a wrapped module inside of it has. A group is gathered by one collective where its
/// module is called, released when that ends, gathered again when backward comes to the module's
/// output (and, ahead, the group whose forward ended before it), and its gradients are averaged by
/// one reduce-scatter when backward has come to the module's input. Where no input requires a
/// gradient that happens when backward ends. Gradients are then those of the shards, added to what
/// they had; what was not used in backward has none. Who calls a wrapped module's `forward`, and
/// not the module, bypasses its group.
///
/// While it is sharded a parameter of the model has its shape and no data: using it fails with
/// what `fully_shard_error` names, or crashes where a kernel of torch does not check. Outside of
/// forward and backward the model's parameters have neither data nor gradients: optimizers and
/// observers use the shards. Python puts the shards, as DTensors, in the place of the model's
/// parameters; there, code that reads one too late is refused in words about DTensors instead.
///
/// Not here: other dimensions than the first, groups of several dtypes, groups of ranks in which
/// shards are replicated, offload to the CPU, prefetches other than the default, streams:
/// every collective ends before what follows.
///
/// Source: Zhao et al., "PyTorch FSDP", 2023, and torch's documentation of fully_shard for the
/// sharding of single parameters.
class FullyShard : public ShardedModel {
 public:
  /// Shards `root` for good: the model stays wrapped, whatever becomes of this object. Its ranks
  /// must have the same parameters; they are not compared and nothing is communicated. `wrapped`:
  /// parts of `root`, in any order, each once. A parameter that two modules share has to be in one
  /// group. Throws Error (internal) for a module that is no part of `root`, a parameter of two
  /// groups, one without rows, and for a group of several dtypes.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  FullyShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
             const FullyShardOptions& options = {});

  /// Inputs are cast and watched as the root's one input is.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  std::vector<NamedShard> shards() const override;
  void set_requires_gradient_sync(bool reduces) override;
  /// False: parameters stay gathered when backward ends, until the next backward that reshards.
  /// What an optimizer steps in between does not reach them.
  void set_reshard_after_backward(bool reshards);

  /// Gathers the parameters of `module`, the root or a wrapped one, without those of the wrapped
  /// ones inside of it; nothing where they are gathered. Throws Error (internal) for another
  /// module.
  void unshard(const Module& module);
  /// Releases them, whoever may still need them; in forward, only where the options say so.
  void reshard(const Module& module);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
