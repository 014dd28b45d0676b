#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// torch.optim.SGD without momentum: p -= learning_rate * grad. A parameter without a gradient is
/// left alone.
class Sgd {
 public:
  Sgd(std::vector<at::Tensor> parameters, double learning_rate);
  void step();

 private:
  std::vector<at::Tensor> parameters_;
  double learning_rate_;
};

}  // namespace lockstep
