#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

enum class GateActivation {
  silu,
  /// None: the layer is the polynomial down(gate(x) * up(x)), exact for numbers of few digits.
  identity,
};

/// The MLP of Llama and Qwen: down(activation(gate(x)) * up(x)), three linear layers without bias.
/// `gate` and `up` are [hidden, width], `down` is [width, hidden], drawn in this order like
/// `Linear`. The product is a separate elementwise operation; fused kernels of real models round
/// less often.
///
/// Source: Shazeer, "GLU variants improve transformer", 2020.
class SwiGlu : public Module {
 public:
  SwiGlu(std::int64_t width, std::int64_t hidden, const at::Generator& generator,
         GateActivation activation = GateActivation::silu);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width]

  /// Replaces each of gate, up and down by wrap(layer), in this order and under the same name.
  void wrap_projections(const WrapModule& wrap);

 private:
  GateActivation activation_;
  std::shared_ptr<Module> gate_, up_, down_;
};

}  // namespace lockstep
