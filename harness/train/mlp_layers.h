#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/train/module.h"
#include "harness/train/swiglu.h"

namespace lockstep {

/// An MLP that may be tiled or wrapped, above a linear layer, so that something of the same layer
/// has its backward after the MLP's.
struct MlpLayer : Module {
  MlpLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width], added to `input`

  std::shared_ptr<Linear> below;
  std::shared_ptr<SwiGlu> mlp;
};

/// Two such layers, called "layers.0" and "layers.1", between an embedding and a head.
struct MlpLayers : Module {
  static constexpr std::int64_t kInputs = 4;

  explicit MlpLayers(const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., kInputs] to [..., 1]

  std::shared_ptr<Linear> embedding, head;
  std::vector<std::shared_ptr<MlpLayer>> layers;
};

}  // namespace lockstep
