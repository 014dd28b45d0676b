#include "harness/train/nn/swiglu.h"

#include <ATen/ops/silu.h>

namespace lockstep {

SwiGlu::SwiGlu(std::int64_t width, std::int64_t hidden, const at::Generator& generator,
               GateActivation activation)
    : activation_(activation),
      gate_(register_module("gate", std::make_shared<Linear>(width, hidden, generator, false))),
      up_(register_module("up", std::make_shared<Linear>(width, hidden, generator, false))),
      down_(register_module("down", std::make_shared<Linear>(hidden, width, generator, false))) {}

at::Tensor SwiGlu::forward(const at::Tensor& input) {
  at::Tensor gate = (*gate_)(input);
  if (activation_ == GateActivation::silu) gate = at::silu(gate);
  return (*down_)(gate * (*up_)(input));
}

void SwiGlu::wrap_projections(const WrapModule& wrap) {
  gate_ = replace_module("gate", wrap(gate_));
  up_ = replace_module("up", wrap(up_));
  down_ = replace_module("down", wrap(down_));
}

}  // namespace lockstep
