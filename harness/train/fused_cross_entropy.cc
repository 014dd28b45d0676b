#include "harness/train/fused_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kNoLabel = -100;
constexpr std::size_t kDifferentiable = 3;  // hidden, head_weight, scale

using Gradients = std::array<at::Tensor, kDifferentiable>;
using Needs = std::array<bool, kDifferentiable>;

/// The function's inputs, hidden states and labels as rows, labels where the head is.
struct Inputs {
  at::Tensor hidden, head_weight, scale, labels;
};

/// A leaf of its own graph; undefined where there is no tensor.
at::Tensor leaf_of(const at::Tensor& tensor, bool needs_gradient) {
  if (!tensor.defined()) return {};
  return tensor.detach().requires_grad_(needs_gradient);
}

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

/// The gradient of `loss` for every leaf that wants one, added to `sums`.
void add_gradients(const at::Tensor& loss, const Gradients& leaves, Gradients& sums) {
  variable_list wanting;
  for (const at::Tensor& leaf : leaves) {
    if (leaf.defined() && leaf.requires_grad()) wanting.push_back(leaf);
  }
  if (wanting.empty()) return;
  const variable_list gradients = torch::autograd::grad({loss}, wanting);
  auto next = gradients.begin();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].defined() && leaves[i].requires_grad()) sums[i].add_(*next++);
  }
}

/// Zeros on the head's device, for every input that needs a gradient.
Gradients zero_gradients(const Inputs& inputs, const Needs& needs) {
  const at::TensorOptions options = inputs.head_weight.options();
  Gradients gradients;
  if (needs[0]) gradients[0] = at::zeros(inputs.hidden.sizes(), options);
  if (needs[1]) gradients[1] = at::zeros(inputs.head_weight.sizes(), options);
  if (needs[2]) gradients[2] = at::zeros({}, options);
  return gradients;
}

/// The loss of some rows, and their part of every gradient.
at::Tensor loss_of_rows(const Inputs& inputs, const Needs& needs, const at::Tensor& count,
                        Gradients& sums) {
  const at::AutoGradMode with_grad(true);
  const Gradients leaves{leaf_of(inputs.hidden, needs[0]), leaf_of(inputs.head_weight, needs[1]),
                         leaf_of(inputs.scale, needs[2])};
  at::Tensor logits = at::linear(leaves[0], leaves[1]);
  if (leaves[2].defined()) logits = logits * leaves[2];
  const at::Tensor loss =
      at::cross_entropy_loss(logits, inputs.labels, /*weight=*/{}, at::Reduction::Sum) / count;
  add_gradients(loss, leaves, sums);
  return loss.detach();
}

/// The mean loss over all rows, chunk by chunk.
at::Tensor loss_of_chunks(const Inputs& inputs, const Needs& needs,
                          const FusedCrossEntropyOptions& options, Gradients& gradients) {
  const at::Device device = inputs.head_weight.device();
  const auto placed = [&](const at::Tensor& tensor) {
    return options.moves_inputs ? moved(tensor, device) : tensor;
  };
  const at::Tensor count = inputs.labels.ne(kNoLabel).sum();
  const auto rows = inputs.hidden.tensor_split(options.chunks);
  const auto labels = inputs.labels.tensor_split(options.chunks);
  const auto row_gradients =
      needs[0] ? gradients[0].tensor_split(options.chunks) : variable_list(rows.size());
  at::Tensor sum = at::zeros({}, inputs.head_weight.options());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Gradients sums{row_gradients[i], gradients[1], gradients[2]};
    sum.add_(loss_of_rows({placed(rows[i]), inputs.head_weight, placed(inputs.scale), labels[i]},
                          needs, count, sums));
  }
  return sum;
}

class FusedCrossEntropy : public torch::autograd::Function<FusedCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& head_weight,
                            const std::optional<at::Tensor>& given_scale, const at::Tensor& labels,
                            const FusedCrossEntropyOptions& options) {
    const at::Tensor scale = given_scale.value_or(at::Tensor());
    const Inputs inputs{hidden.flatten(0, -2), head_weight, scale,
                        labels.flatten().to(head_weight.device())};
    const Needs needs{hidden.requires_grad(), head_weight.requires_grad(),
                      scale.defined() && scale.requires_grad()};
    Gradients gradients = zero_gradients(inputs, needs);
    const at::Tensor loss = loss_of_chunks(inputs, needs, options, gradients);
    if (needs[0]) gradients[0] = gradients[0].view(hidden.sizes());
    if (options.returns_gradients) {
      gradients[0] = moved(gradients[0], hidden.device());
      if (scale.defined()) gradients[2] = moved(gradients[2], scale.device());
    }
    keep(context, gradients, options);
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grad_outputs) {
    const auto use = static_cast<GradOutput>(context->saved_data["grad_output"].toInt());
    variable_list gradients = kept(context);
    for (at::Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      const at::Tensor& factor = grad_outputs[0].to(gradient.device());
      if (use == GradOutput::in_place) gradient.mul_(factor);
      if (use == GradOutput::out_of_place) gradient = gradient * factor;
    }
    gradients.resize(kDifferentiable + 2);  // labels and options have none
    return gradients;
  }

 private:
  static void keep(AutogradContext* context, const Gradients& gradients,
                   const FusedCrossEntropyOptions& options) {
    context->saved_data["grad_output"] = static_cast<std::int64_t>(options.grad_output);
    context->saved_data["is_watched"] = options.saves_for_backward;
    if (options.saves_for_backward) {
      context->save_for_backward(variable_list(gradients.begin(), gradients.end()));
      return;
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) context->saved_data[std::to_string(i)] = gradients[i];
    }
  }

  static variable_list kept(AutogradContext* context) {
    if (context->saved_data["is_watched"].toBool()) return context->get_saved_variables();
    variable_list gradients(kDifferentiable);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto found = context->saved_data.find(std::to_string(i));
      if (found != context->saved_data.end()) gradients[i] = found->second.toTensor();
    }
    return gradients;
  }
};

}  // namespace

at::Tensor fused_cross_entropy(const at::Tensor& hidden, const at::Tensor& head_weight,
                               const at::Tensor& scale, const at::Tensor& labels,
                               const FusedCrossEntropyOptions& options) {
  const std::optional<at::Tensor> given = scale.defined() ? std::optional(scale) : std::nullopt;
  return FusedCrossEntropy::apply(hidden, head_weight, given, labels, options);
}

}  // namespace lockstep
