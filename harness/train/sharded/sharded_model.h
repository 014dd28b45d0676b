#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/observe/named_tensor.h"
#include "harness/train/nn/module.h"

namespace lockstep {

/// A tensor of which this rank holds a part, its name in the model, and where the part lies. A part
/// of a tensor that was flattened before it was cut has the flattened shape as its global one.
struct NamedShard {
  std::string name;
  at::Tensor tensor;
  Shard place;
};

/// A model whose training is spread over ranks: each steps a part of the parameters, with the
/// gradients of that part.
class ShardedModel {
 public:
  virtual ~ShardedModel() = default;

  /// Calls the model.
  at::Tensor forward(const at::Tensor& input) { return module()(input); }

  /// The same for a forward of any signature: `inputs` are the tensors that it is given.
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                          const Forward& forward) = 0;

  virtual Module& module() = 0;

  /// This rank's parts of the parameters, leaves: those of `module`, in its order, also where a
  /// part is empty. Their `.grad` is what backward reduced for them.
  virtual std::vector<NamedShard> shards() const = 0;
  /// The same as an optimizer takes them.
  std::vector<at::Tensor> parameters() const;

  /// Drops the gradients of the shards.
  virtual void zero_grad();

  /// False: backward leaves gradients on this rank until one that reduces adds to them.
  virtual void set_requires_gradient_sync(bool reduces) = 0;

  /// Behind an optimizer's step: gives all ranks what it changed, where they keep parameters whole.
  virtual void finish_step() {}
  virtual bool keeps_parameters_whole() const { return false; }
  /// Whether what backward reduced is whole on every rank, and `shards` are whole parameters.
  virtual bool keeps_gradients_whole() const { return false; }
};

}  // namespace lockstep
