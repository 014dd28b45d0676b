#include "harness/train/nn/two_layers.h"

#include <ATen/TensorOperators.h>

namespace lockstep {

TwoLayers::TwoLayers(std::int64_t in, std::int64_t hidden, std::int64_t out,
                     const at::Generator& generator)
    : up_(register_module("up", std::make_shared<Linear>(in, hidden, generator))),
      down_(register_module("down", std::make_shared<Linear>(hidden, out, generator))) {}

at::Tensor TwoLayers::forward(const at::Tensor& input) {
  return down_->forward(up_->forward(input).tanh());
}

}  // namespace lockstep
