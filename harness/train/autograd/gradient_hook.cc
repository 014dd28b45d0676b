#include "harness/train/autograd/gradient_hook.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace lockstep {

namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> run) : run_(std::move(run)) {}

  void operator()(const torch::autograd::Variable& /*leaf*/) override {
    const at::NoGradGuard no_grad;
    run_();
  }

 private:
  std::function<void()> run_;
};

}  // namespace

void on_gradient(const at::Tensor& leaf, std::function<void()> run) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<Hook>(std::move(run)));
}

}  // namespace lockstep
