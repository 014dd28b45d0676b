#pragma once

#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// A parameter, by its name in the model, and the dimension along which it is cut.
struct TensorSplit {
  std::string name;
  std::int64_t dim = 0;
};

/// Tensor parallelism: each rank keeps one of equal parts of some parameters, in rank order, and
/// all others whole. The module computes with the parts from then on, so its forward is written for
/// them, with the collectives that they need (harness/train/autograd/collectives.h). Nothing here
/// communicates, and no gradient is reduced: those of whole parameters are the rank's own.
///
/// Megatron's layers in small: without its fused kernels, its overlap, and its initialisation,
/// which draws each part.
class TensorParallel : public ShardedModel {
 public:
  /// The parameters of `module` have no gradients yet, and their dimensions are multiples of the
  /// ranks. Throws Error (internal) for a name that is none. Keeps a reference to `module`.
  TensorParallel(Module& module, const std::vector<TensorSplit>& splits, const ProcessGroup& group);

  using ShardedModel::forward;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override {
    return forward(inputs);
  }
  Module& module() override { return module_; }
  std::vector<NamedShard> shards() const override { return shards_; }
  void set_requires_gradient_sync(bool /*reduces*/) override {}

  /// Those that every rank holds whole, in order, if they require a gradient.
  std::vector<at::Tensor> whole_parameters() const;

 private:
  Module& module_;
  std::vector<NamedShard> shards_;
};

}  // namespace lockstep
