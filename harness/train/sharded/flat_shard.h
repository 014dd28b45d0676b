#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// When a flat parameter is whole.
///   full_shard      in the forward and in the backward of its module, gathered before each
///   shard_grad_op   from its module's forward to its backward, gathered once
///   no_shard        always; gradients are all-reduced
enum class FlatStrategy { full_shard, shard_grad_op, no_shard };

/// torch.distributed.fsdp.FullyShardedDataParallel (FSDP1), in C++, with `use_orig_params=False`
/// and otherwise its defaults. It calls the same collectives of the same sizes in the same order,
/// from the same places in autograd's engine. A test compares it with Python's.
///
/// The root and each module of `wrapped` have one flat parameter (FlatParameter). It contains the
/// module's parameters without those of wrapped modules inside. It is gathered when its module is
/// called, and again when backward reaches the module's output. Backward also gathers ahead for the
/// module whose forward ended just before. A hook of its AccumulateGrad reduces its gradient when
/// all gradients of this backward are in it. In a nested backward, as in recomputing functions,
/// that is the end of the nested one: the hook runs in each, reshards and reduces. Later
/// computation that does not call the module uses released parameters, and fails with the errors in
/// `fully_shard_error`. The root's parameter is kept after forward. At the end of backward
/// everything that no hook has resharded is resharded.
///
/// At the end of backward, gradients are added to those of `shards`. If any part of a flat
/// parameter gets a gradient, unused parts get zeros.
///
/// A single rank trains with `no_shard`, whatever the strategy.
///
/// Flaws of the original are kept. If a strategy keeps parameters after forward, a module that was
/// called but not used in backward keeps its gathered ones. It computes with them again after an
/// optimizer's step. Of one graph, only the first backward reduces.
///
/// Not supported: `use_orig_params=True`, mixed precision, CPU offload, hybrid sharding, prefetch
/// in forward, streams (every collective completes before the next operation). The original gives
/// an optimizer the flat parameter; here it gets the pieces by parameter. Between a `reshard` under
/// `no_sync` and the next gathering the original's flat parameter has the size of its shard. There
/// torch's Python binding refuses a whole gradient; here it does not.
///
/// Source: Zhao et al., "PyTorch FSDP", 2023.
class FlatShard : public ShardedModel {
 public:
  /// Shards `root` permanently: the model stays wrapped after this object is gone. Its ranks must
  /// have the same parameters; they are not compared. Does not communicate. `wrapped`: parts of
  /// `root`, in any order, each once. Throws Error (internal) for a module that is not a part of
  /// `root`, a parameter of two units, and anything that FlatParameter cannot flatten.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  FlatShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
            FlatStrategy strategy = FlatStrategy::full_shard);

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  /// With a global shape [elements of the parameter]: pieces may cut parameters anywhere. With
  /// `no_shard`, whole parameters.
  std::vector<NamedShard> shards() const override;

  /// Parameters that `module`, a part of the model, lists in the original: the flat ones of the
  /// wrapped modules among it and its parts. Parameters flattened by a module around it no longer
  /// count.
  std::vector<at::Tensor> listed_parameters(const Module& module) const;

  /// Also drops gradients that are not reduced yet, but no others. As in the original, gradients
  /// that were reduced before a non-reducing backward come back.
  void zero_grad() override;
  /// False: `no_sync`. Gradients stay whole on this rank, and so do parameters unless they are
  /// released after forward.
  void set_requires_gradient_sync(bool reduces) override;
  bool keeps_parameters_whole() const override;
  bool keeps_gradients_whole() const override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
