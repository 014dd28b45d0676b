#pragma once

#include <utility>
#include <vector>

#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// A model of which each rank has some parts. Nothing here communicates, and no gradient is
/// reduced.
class UnreducedModel : public ShardedModel {
 public:
  using ShardedModel::forward;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override {
    return forward(inputs);
  }
  Module& module() override { return module_; }
  std::vector<NamedShard> shards() const override { return shards_; }
  void set_requires_gradient_sync(bool /*reduces*/) override {}

 protected:
  /// `shards`: of this rank. Keeps a reference to `module`.
  UnreducedModel(Module& module, std::vector<NamedShard> shards)
      : module_(module), shards_(std::move(shards)) {}

 private:
  Module& module_;
  std::vector<NamedShard> shards_;
};

}  // namespace lockstep
