#include "harness/train/optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <cstddef>
#include <utility>

#include "harness/train/optim/optimizer_state.h"

namespace lockstep {

Sgd::Sgd(std::vector<at::Tensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)), learning_rate_(learning_rate) {}

void Sgd::step() {
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) parameter.add_(parameter.grad(), -learning_rate_);
  }
}

OptimizerState Sgd::state() const { return OptimizerState(parameters_.size()); }

void Sgd::load_state(const OptimizerState& state) { require_state(state, parameters_.size(), {0}); }

AdamW::AdamW(std::vector<at::Tensor> parameters, double learning_rate, const AdamWOptions& options)
    : parameters_(std::move(parameters)),
      states_(parameters_.size()),
      learning_rate_(learning_rate),
      options_(options) {}

void AdamW::step() {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) step_one(parameters_[i], states_[i]);
  }
}

// Python passes all parameters of a dtype to one call; the kernel processes them one by one.
void AdamW::step_one(at::Tensor& parameter, State& state) const {
  if (!state.step.defined()) {
    state.step = at::zeros({}, parameter.options().dtype(at::kFloat));
    state.exp_avg = at::zeros_like(parameter);
    state.exp_avg_sq = at::zeros_like(parameter);
  }
  state.step.add_(1);
  at::_fused_adamw_(parameter, parameter.grad(), state.exp_avg, state.exp_avg_sq,
                    /*max_exp_avg_sqs=*/{}, state.step, learning_rate_, options_.beta1,
                    options_.beta2, options_.weight_decay, options_.eps, /*amsgrad=*/false,
                    /*maximize=*/false);
}

OptimizerState AdamW::state() const {
  OptimizerState copies(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    if (!state.step.defined()) continue;
    copies[i] = {state.step.clone(), state.exp_avg.clone(), state.exp_avg_sq.clone()};
  }
  return copies;
}

void AdamW::load_state(const OptimizerState& state) {
  require_state(state, parameters_.size(), {0, 3});
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i] = State{};
    if (state[i].empty()) continue;
    states_[i] = {state[i][0].clone(), state[i][1].clone(), state[i][2].clone()};
  }
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<at::Tensor> parameters,
                                          double learning_rate) {
  if (name == "sgd") return std::make_unique<Sgd>(std::move(parameters), learning_rate);
  if (name == "adamw") return std::make_unique<AdamW>(std::move(parameters), learning_rate);
  throw unknown_name("optimizer", name, {"sgd", "adamw"});
}

}  // namespace lockstep
