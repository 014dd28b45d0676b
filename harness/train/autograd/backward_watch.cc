#include "harness/train/autograd/backward_watch.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Payload of a graph node: the callback for when backward has passed it.
struct AfterBackward : torch::CustomClassHolder {
  explicit AfterBackward(std::function<void()> f) : run(std::move(f)) {}
  std::function<void()> run;
};

class PostBackward : public torch::autograd::Function<PostBackward> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context,
                         const c10::intrusive_ptr<AfterBackward>& after, at::TensorList inputs) {
    context->saved_data["after"] = c10::IValue::make_capsule(after);
    return inputs.vec();
  }

  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    const auto after = context->saved_data["after"].toCapsule();
    c10::static_intrusive_pointer_cast<AfterBackward>(after)->run();
    gradients.insert(gradients.begin(), at::Tensor());
    return gradients;
  }
};

}  // namespace

Tensors watch_inputs(const Tensors& inputs, std::function<void()> after) {
  if (!at::GradMode::is_enabled()) return inputs;
  Tensors watched;
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(watched),
               [](const at::Tensor& input) { return input.requires_grad(); });
  if (watched.empty()) return inputs;
  const Tensors passed = PostBackward::apply(c10::make_intrusive<AfterBackward>(std::move(after)),
                                             at::TensorList(watched));
  Tensors all = inputs;
  auto next = passed.begin();
  for (at::Tensor& input : all) {
    if (input.requires_grad()) input = *next++;
  }
  return all;
}

void watch_outputs(const Tensors& outputs, const std::function<void()>& before) {
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    output.register_hook([before](const at::Tensor& /*gradient*/) { before(); });
  }
}

void at_end_of_backward(std::function<void()> at_end) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(at_end));
}

}  // namespace lockstep
