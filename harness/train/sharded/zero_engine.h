#pragma once

#include <vector>

#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// Treatment of parameters and gradients in one stage of Zero.
class ZeroEngine {
 public:
  virtual ~ZeroEngine() = default;

  virtual const std::vector<NamedShard>& shards() const = 0;
  virtual bool keeps_parameters_whole() const = 0;

  /// Called when the model is called outside backward.
  virtual void begin_forward() {}
  /// Called at the end of backward. `is_boundary`: the step follows.
  virtual void finish_backward(bool is_boundary) = 0;
  virtual void zero_grad() = 0;
  virtual void finish_step() {}
};

/// Whether a hook may reduce the gradient of `parameter`: true unless its attribute says otherwise.
bool is_gradient_ready(const at::Tensor& parameter);

}  // namespace lockstep
