#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Two linear layers and a tanh between them.
class TwoLayers : public Module {
 public:
  TwoLayers(std::int64_t in, std::int64_t hidden, std::int64_t out, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

 private:
  std::shared_ptr<Linear> up_, down_;
};

}  // namespace lockstep
