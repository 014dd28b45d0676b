#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "harness/train/optim/optimizer.h"

namespace lockstep {

/// A matrix whose singular values are about 1, and what its step is scaled by.
struct Orthogonal {
  at::Tensor matrix;
  double scale = 1;
};

/// The singular vectors of `matrix` [rows, columns] with singular values between about 0.5 and 1.5:
/// five Newton-Schulz steps in `dtype`. It needs the whole matrix: the result for some rows are not
/// those rows of the result. The scale is the root of rows / columns, if that is above 1.
///
/// Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
Orthogonal orthogonalised(const at::Tensor& matrix, at::ScalarType dtype = at::kBFloat16);

/// One step of it on rows of a normalised matrix, whose Gram matrix [columns, columns] is `gram`.
at::Tensor newton_schulz_step(const at::Tensor& rows, const at::Tensor& gram);

/// The steps that `orthogonalised` takes.
inline constexpr int kNewtonSchulzSteps = 5;

/// Defaults of torch.optim.Muon.
struct MuonOptions {
  double momentum = 0.95;
  double weight_decay = 0.1;
};

/// torch.optim.Muon with Nesterov's momentum: a parameter moves along the orthogonalised mean of
/// its gradients. Parameters are matrices. A test compares it with Python's, bit for bit.
class Muon : public Optimizer {
 public:
  using Orthogonalise = std::function<Orthogonal(const at::Tensor& update)>;

  /// `orthogonalise` replaces `orthogonalised` in bfloat16, for parameters that are parts of
  /// matrices.
  Muon(std::vector<at::Tensor> parameters, double learning_rate, const MuonOptions& options = {},
       Orthogonalise orthogonalise = {});
  void step() override;
  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  /// Of each parameter that had a gradient, `momentum_buffer`.
  OptimizerState state() const override;
  void load_state(const OptimizerState& state) override;

 private:
  void step_one(at::Tensor& parameter, at::Tensor& momentum) const;

  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momenta_;  ///< undefined before the first gradient
  double learning_rate_;
  MuonOptions options_;
  Orthogonalise orthogonalise_;
};

}  // namespace lockstep
