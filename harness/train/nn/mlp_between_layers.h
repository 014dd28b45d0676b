#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

struct MlpBetweenLayersOptions {
  std::int64_t width = 8;
  std::int64_t hidden = 16;
  bool has_below = true;
  bool has_above = true;
  GateActivation activation = GateActivation::silu;
  std::string frozen = "none";  ///< the MLP's weights: none, gate, all
  /// Weights of -1, 0 and 1, so that sums of products with whole inputs are exact.
  bool has_whole_weights = false;
};

/// A SwiGLU `mlp` between two linear layers, `below` and `above`, drawn in the order below, mlp,
/// above. The layers around it decide which gradients DDP still waits for when the MLP's are done.
class MlpBetweenLayers : public Module {
 public:
  explicit MlpBetweenLayers(const at::Generator& generator,
                            const MlpBetweenLayersOptions& options = {});
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width]

  /// The same with `run_mlp` in the place of the MLP. Its input always requires a gradient.
  at::Tensor run(const at::Tensor& input, const Forward& run_mlp);

  SwiGlu& mlp() { return *mlp_; }

 private:
  std::shared_ptr<Linear> below_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Linear> above_;
};

}  // namespace lockstep
