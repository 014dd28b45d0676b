#pragma once

#include <vector>

#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// A model of which each rank trains some modules: the stage of a pipeline, or some experts. Others
/// are on all ranks. Every rank holds the whole model, and leaves the rest alone. Nothing here
/// communicates, and no gradient is reduced.
class ModelParts : public ShardedModel {
 public:
  /// `own` are modules of `module` that this rank trains, `copied` those that all ranks train.
  /// Keeps a reference to `module`.
  ModelParts(Module& module, const std::vector<Module*>& own, const std::vector<Module*>& copied);

  using ShardedModel::forward;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override {
    return forward(inputs);
  }
  Module& module() override { return module_; }
  std::vector<NamedShard> shards() const override { return shards_; }
  void set_requires_gradient_sync(bool /*reduces*/) override {}

 private:
  Module& module_;
  std::vector<NamedShard> shards_;
};

}  // namespace lockstep
