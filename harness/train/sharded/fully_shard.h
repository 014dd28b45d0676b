#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// Options of fully_shard; the defaults are FSDP2's.
struct FullyShardOptions {
  /// Whether a group releases its parameters when its forward ends, and gathers them again for
  /// backward. Absent: all but the root's, which backward would need at once.
  std::optional<bool> reshard_after_forward = {};
  /// Dtype of computation and of gathered parameters; inputs of wrapped modules are cast to it.
  /// Absent: the parameters' own.
  std::optional<at::ScalarType> param_dtype = {};
  /// Dtype of the reduction of gradients; they are then cast to the dtype of the shards. Absent:
  /// that of computation.
  std::optional<at::ScalarType> reduce_dtype = {};
  /// Parameters that stay whole on every rank. Their gradients are each rank's own: not to shard
  /// them is not to reduce them.
  std::vector<at::Tensor> ignored_params = {};
};

/// Errors for the use of a parameter whose group has been resharded, in torch's words: for reads,
/// and for views as in linear layers.
namespace fully_shard_error {
inline constexpr const char* kReleased =
    "The tensor has a non-zero number of elements, but its data is not allocated yet.";
inline constexpr const char* kViewOfReleased = "are out of bounds for storage of size 0";
}  // namespace fully_shard_error

/// torch.distributed.fsdp.fully_shard (FSDP2), in C++: the same collectives of the same sizes in
/// the same order, from the same places in autograd's engine. A test compares it with Python's.
///
/// The root and each module of `wrapped` have a group of parameters: their own and those of their
/// parts, without those of wrapped modules inside. One collective gathers a group when its module
/// is called; the group is released when the call ends. It is gathered again when backward reaches
/// the module's output. Backward also gathers ahead for the group whose forward ended just before.
/// When backward reaches the module's input, one reduce-scatter averages the group's gradients. If
/// no input requires a gradient, that happens at the end of backward. The results are added to the
/// gradients of the shards; parameters unused in backward get none. Calling a wrapped module's
/// `forward`, instead of the module, bypasses its group.
///
/// While sharded, a parameter of the model has its shape and no data. Using it fails with the
/// errors in `fully_shard_error`, or crashes if a torch kernel does not check. Outside forward and
/// backward the model's parameters have neither data nor gradients, so optimizers and observers use
/// the shards. Python replaces the model's parameters by the shards, as DTensors. There, code that
/// reads one too late gets an error about DTensors instead.
///
/// Not supported: dimensions other than the first, groups of several dtypes, groups of ranks with
/// replicated shards, CPU offload, prefetches other than the default, streams (every collective
/// completes before the next operation).
///
/// Source: Zhao et al., "PyTorch FSDP", 2023, and torch's documentation of fully_shard for the
/// sharding of single parameters.
class FullyShard : public ShardedModel {
 public:
  /// Shards `root` permanently: the model stays wrapped after this object is gone. Its ranks must
  /// have the same parameters; they are not compared. Does not communicate. `wrapped`: parts of
  /// `root`, in any order, each once. A parameter that two modules share must be in one group.
  /// Throws Error (internal) for a module that is not a part of `root`, and for a group of several
  /// dtypes. Also throws for a parameter of two groups or without rows.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  FullyShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
             const FullyShardOptions& options = {});

  /// Casts and watches the inputs like the root's single input.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  std::vector<NamedShard> shards() const override;
  void set_requires_gradient_sync(bool reduces) override;
  /// False: parameters stay gathered after backward, until the next backward that reshards.
  /// Optimizer steps in between do not reach them.
  void set_reshard_after_backward(bool reshards);

  /// Gathers the parameters of `module`, the root or a wrapped one, without those of wrapped
  /// modules inside. Does nothing if they are gathered. Throws Error (internal) for another module.
  void unshard(const Module& module);
  /// Releases them, even if they are still needed; in forward, only if the options say so.
  void reshard(const Module& module);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
