#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/observe/named_tensor.h"
#include "harness/train/nn/module.h"

namespace lockstep {

/// A tensor of which this rank holds a part, its name in the model, and the part's position. If the
/// tensor was flattened before it was cut, the global shape is the flattened one. Without a global
/// shape the tensor is whole, on every rank.
struct NamedShard {
  std::string name;
  at::Tensor tensor;
  Shard place;
};

/// A model whose training is distributed over ranks: each steps a part of the parameters, with the
/// gradients of that part.
class ShardedModel {
 public:
  virtual ~ShardedModel() = default;

  /// Calls the model.
  at::Tensor forward(const at::Tensor& input) { return module()(input); }

  /// The same for a forward of any signature: `inputs` are its tensors.
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                          const Forward& forward) = 0;

  virtual Module& module() = 0;

  /// This rank's parts of the parameters: leaves in the order of `module`, including empty parts.
  /// Backward reduces gradients into their `.grad`.
  virtual std::vector<NamedShard> shards() const = 0;
  /// The same for an optimizer.
  std::vector<at::Tensor> parameters() const;

  /// Drops the gradients of the shards.
  virtual void zero_grad();

  /// False: backward leaves gradients on this rank until a reducing one adds to them.
  virtual void set_requires_gradient_sync(bool reduces) = 0;

  /// Call after an optimizer's step. If ranks keep parameters whole, sends the step's changes to
  /// all of them.
  virtual void finish_step() {}
  virtual bool keeps_parameters_whole() const { return false; }
  /// Whether every rank has whole reduced gradients, and `shards` are whole parameters.
  virtual bool keeps_gradients_whole() const { return false; }
};

}  // namespace lockstep
