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

/// torch.distributed.fsdp.FullyShardedDataParallel (FSDP1) with `use_orig_params=False` and
/// otherwise its defaults, in C++: the same collectives of the same sizes in the same order, from
/// the same places in autograd's engine. A test holds it against Python's.
///
/// The root and each module of `wrapped` has one flat parameter (FlatParameter), of what it has
/// without the wrapped modules inside of it. It is gathered where its module is called, and again
/// where backward comes to the module's output (and, ahead, that of the module whose forward ended
/// before it). Its gradient is reduced by a hook of its AccumulateGrad, once all gradients of this
/// backward are in it. Where a backward is nested in another one, as recomputing functions have
/// them, that is when the nested one has: the hook runs in each, reshards and reduces. What is
/// computed behind it by nobody who called the module uses released parameters, and fails with what
/// `fully_shard_error` names. The root's is kept after forward. At the end of backward what no hook
/// has resharded is.
///
/// Gradients of `shards` are added to what they had, at the end of backward. Everything in a flat
/// parameter gets a gradient where anything does: what was not used, zeros.
///
/// A single rank trains with `no_shard`, whatever it was asked for.
///
/// As the original, with its flaws: a module that was called and not used in backward keeps what
/// was gathered where its strategy keeps it after forward, and computes with it again after an
/// optimizer's step; of one graph, only the first backward reduces.
///
/// Not here: `use_orig_params=True`, mixed precision, offload to the CPU, hybrid sharding, prefetch
/// in forward, streams: every collective ends before what follows. The original has one parameter
/// for an optimizer to step, the flat one, where here are its pieces by parameter. Between a
/// `reshard` under `no_sync` and the next gathering the original's flat parameter has the size of
/// its shard: whoever sets its whole gradient there is refused by torch's Python binding, and is
/// not here.
///
/// Source: Zhao et al., "PyTorch FSDP", 2023.
class FlatShard : public ShardedModel {
 public:
  /// Shards `root` for good: the model stays wrapped, whatever becomes of this object. Its ranks
  /// must have the same parameters; they are not compared and nothing is communicated. `wrapped`:
  /// parts of `root`, in any order, each once. Throws Error (internal) for a module that is no part
  /// of `root`, a parameter of two units, and for what FlatParameter cannot flatten.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  FlatShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
            FlatStrategy strategy = FlatStrategy::full_shard);

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  /// Of a global shape [elements of the parameter]: pieces cut parameters where it comes. With
  /// `no_shard`, whole parameters.
  std::vector<NamedShard> shards() const override;

  /// What `module`, a part of the model, lists as its parameters in the original: the flat ones of
  /// wrapped modules among it and its parts. What a module around it has flattened is no parameter
  /// of it any more.
  std::vector<at::Tensor> listed_parameters(const Module& module) const;

  /// Also those that are not reduced yet, but no others: gradients that were reduced before a
  /// backward that did not reduce come back, as in the original.
  void zero_grad() override;
  /// False: `no_sync`. Gradients stay whole on this rank, and parameters too unless they are
  /// released after forward.
  void set_requires_gradient_sync(bool reduces) override;
  bool keeps_parameters_whole() const override;
  bool keeps_gradients_whole() const override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
