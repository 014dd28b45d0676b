#pragma once

#include <vector>

#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// What a stage of Zero does with parameters and gradients.
class ZeroEngine {
 public:
  virtual ~ZeroEngine() = default;

  virtual const std::vector<NamedShard>& shards() const = 0;
  virtual bool keeps_parameters_whole() const = 0;

  /// The model is called, outside of backward.
  virtual void begin_forward() {}
  /// Backward has ended. `is_boundary`: the step follows.
  virtual void finish_backward(bool is_boundary) = 0;
  virtual void zero_grad() = 0;
  virtual void finish_step() {}
};

/// Whether a hook may reduce the gradient of `parameter`: true unless its attribute says otherwise.
bool is_gradient_ready(const at::Tensor& parameter);

}  // namespace lockstep
