#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/nn/transformer.h"

namespace lockstep {

/// A transformer layer without attention: x + mlp(norm(x)).
class MlpLayer : public Module {
 public:
  MlpLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width]

  Module& mlp() { return *mlp_; }

 private:
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<SwiGlu> mlp_;
};

/// Sizes of MlpLayers. None of the defaults is even in its first dimension for 2 ranks.
struct MlpLayersOptions {
  std::int64_t inputs = 4;
  std::int64_t width = 5;
  std::int64_t hidden = 7;
  int layers = 2;
};

/// Model of scenarios about tiled MLPs: `embedding`, `layers.0` and so on, and `head`, from [...,
/// inputs] to [..., 1].
class MlpLayers : public Module {
 public:
  MlpLayers(const MlpLayersOptions& options, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;

  /// All MLPs or layers, named by the user's level of wrapping: "mlp", "layer", or "root" for none
  /// except the model itself.
  std::vector<Module*> at_level(std::string_view level) const;
  std::vector<Module*> mlps() const { return at_level("mlp"); }

 private:
  std::shared_ptr<Linear> embedding_, head_;
  std::vector<std::shared_ptr<MlpLayer>> layers_;
};

}  // namespace lockstep
