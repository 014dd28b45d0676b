#include "harness/train/optim/muon.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/train/optim/optimizer_state.h"

namespace lockstep {

namespace {

// Of the quintic polynomial, as in torch.
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.7750;
constexpr double kQuintic = 2.0315;
constexpr double kLeastNorm = 1e-7;

at::Tensor polynomial_of(const at::Tensor& gram) {
  return at::addmm(gram, gram, gram, kCubic, kQuintic);
}

}  // namespace

at::Tensor newton_schulz_step(const at::Tensor& rows, const at::Tensor& gram) {
  return at::addmm(rows, rows, polynomial_of(gram), kLinear);
}

Orthogonal orthogonalised(const at::Tensor& matrix, at::ScalarType dtype) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor result = matrix.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (is_tall) result = result.t();
  result.div_(result.norm().clamp_min(kLeastNorm));
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    result = at::addmm(result, polynomial_of(result.mm(result.t())), result, kLinear);
  }
  if (is_tall) result = result.t();
  const double rows_per_column =
      static_cast<double>(matrix.size(0)) / static_cast<double>(matrix.size(1));
  return {result, std::sqrt(std::max(1.0, rows_per_column))};
}

Muon::Muon(std::vector<at::Tensor> parameters, double learning_rate, const MuonOptions& options,
           Orthogonalise orthogonalise)
    : parameters_(std::move(parameters)),
      momenta_(parameters_.size()),
      learning_rate_(learning_rate),
      options_(options),
      orthogonalise_(std::move(orthogonalise)) {
  if (orthogonalise_) return;
  orthogonalise_ = [](const at::Tensor& update) { return orthogonalised(update); };
}

void Muon::step() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) step_one(parameters_[i], momenta_[i]);
  }
}

OptimizerState Muon::state() const {
  OptimizerState copies(momenta_.size());
  for (std::size_t i = 0; i < momenta_.size(); ++i) {
    if (momenta_[i].defined()) copies[i] = {momenta_[i].clone()};
  }
  return copies;
}

void Muon::load_state(const OptimizerState& state) {
  require_state(state, parameters_.size(), {0, 1});
  for (std::size_t i = 0; i < momenta_.size(); ++i) {
    momenta_[i] = state[i].empty() ? at::Tensor() : state[i][0].clone();
  }
}

void Muon::step_one(at::Tensor& parameter, at::Tensor& momentum) const {
  const at::Tensor& gradient = parameter.grad();
  if (!momentum.defined()) momentum = at::zeros_like(gradient);
  momentum.lerp_(gradient, 1 - options_.momentum);
  const auto [update, scale] = orthogonalise_(gradient.lerp(momentum, options_.momentum));
  parameter.mul_(1 - learning_rate_ * options_.weight_decay);
  parameter.add_(update, -learning_rate_ * scale);
}

}  // namespace lockstep
