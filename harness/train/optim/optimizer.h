#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// The tensors of an optimizer's state, for each of its parameters in order. AdamW's are `step`,
/// `exp_avg` and `exp_avg_sq`, none before a parameter's first step; SGD has none.
using OptimizerState = std::vector<std::vector<at::Tensor>>;

/// Updates parameters by their gradients, in place and outside autograd. A parameter without a
/// gradient is skipped. Gradients are read and not dropped. Does not communicate.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void step() = 0;

  /// From the next step on, for all parameters; for schedules.
  virtual void set_learning_rate(double learning_rate) = 0;

  /// Copies, for a checkpoint.
  virtual OptimizerState state() const = 0;
  /// Copies `state` in the place of the present one. Throws Error (internal) if it is that of
  /// another number of parameters, or of another kind of optimizer.
  virtual void load_state(const OptimizerState& state) = 0;
};

/// torch.optim.SGD without momentum: p -= learning_rate * grad.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<at::Tensor> parameters, double learning_rate);
  void step() override;
  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  OptimizerState state() const override;
  void load_state(const OptimizerState& state) override;

 private:
  std::vector<at::Tensor> parameters_;
  double learning_rate_;
};

/// Defaults of torch.optim.AdamW.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// torch.optim.AdamW(fused=True) without amsgrad: torch's own kernel, bit for bit. A parameter's
/// state is created, and its step count begins, in the first step with a gradient.
///
/// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<at::Tensor> parameters, double learning_rate, const AdamWOptions& options = {});
  void step() override;
  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  OptimizerState state() const override;
  void load_state(const OptimizerState& state) override;

 private:
  /// State of one parameter: undefined until needed. Names follow Python's state.
  struct State {
    at::Tensor step;  ///< 0-dim, float32
    at::Tensor exp_avg, exp_avg_sq;
  };
  void step_one(at::Tensor& parameter, State& state) const;

  std::vector<at::Tensor> parameters_;
  std::vector<State> states_;  ///< one per parameter
  double learning_rate_;
  AdamWOptions options_;
};

/// The optimizer `name`, "sgd" or "adamw", with its default options. Throws Error (usage) for
/// another name.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<at::Tensor> parameters, double learning_rate);

}  // namespace lockstep
