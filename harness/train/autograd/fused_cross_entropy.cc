#include "harness/train/autograd/fused_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harness/train/autograd/functional_gradient.h"

namespace lockstep {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kNoLabel = -100;
constexpr std::size_t kDifferentiable = 3;  // hidden, head_weight, scale

using Gradients = std::array<at::Tensor, kDifferentiable>;
using Needs = std::array<bool, kDifferentiable>;

/// The function's inputs: hidden states and labels as rows, labels on the head's device.
struct Inputs {
  at::Tensor hidden, head_weight, scale, labels;
};

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  return tensor.defined() ? tensor.to(device) : tensor;
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

/// The loss of some rows.
at::Tensor plain_loss(const Inputs& inputs, const at::Tensor& count) {
  at::Tensor logits = at::linear(inputs.hidden, inputs.head_weight);
  if (inputs.scale.defined()) logits = logits * inputs.scale;
  return at::cross_entropy_loss(logits, inputs.labels, /*weight=*/{}, at::Reduction::Sum) / count;
}

/// The loss of some rows. Adds their part of every gradient to `sums`.
at::Tensor loss_of_rows(const Inputs& rows, const Needs& needs, const at::Tensor& count,
                        const FusedCrossEntropyOptions& options, Gradients& sums) {
  const std::array<at::Tensor, kDifferentiable> given{rows.hidden, rows.head_weight, rows.scale};
  variable_list arguments, wanted;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!needs[i]) continue;
    arguments.push_back(given[i]);
    wanted.push_back(sums[i]);
  }
  const LossOf loss_of = [&](const variable_list& differentiated) {
    std::array<at::Tensor, kDifferentiable> used = given;
    auto next = differentiated.begin();
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (needs[i]) used[i] = *next++;
      if (options.moves_inputs) used[i] = moved(used[i], rows.head_weight.device());
    }
    return plain_loss({used[0], used[1], used[2], rows.labels}, count);
  };
  const GradAndValue result = options.is_functional ? functional_grad_and_value(loss_of, arguments)
                                                    : grad_and_value(loss_of, arguments);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].add_(result.gradients[i].to(wanted[i].device()));
  }
  return result.value;
}

/// The mean loss over all rows, chunk by chunk.
at::Tensor loss_of_chunks(const Inputs& inputs, const Needs& needs,
                          const FusedCrossEntropyOptions& options, Gradients& gradients) {
  const at::Tensor count = inputs.labels.ne(kNoLabel).sum();
  const auto rows = inputs.hidden.tensor_split(options.chunks);
  const auto labels = inputs.labels.tensor_split(options.chunks);
  const auto row_gradients =
      needs[0] ? gradients[0].tensor_split(options.chunks) : variable_list(rows.size());
  at::Tensor sum = at::zeros({}, inputs.head_weight.options());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Gradients sums{row_gradients[i], gradients[1], gradients[2]};
    sum.add_(loss_of_rows({rows[i], inputs.head_weight, inputs.scale, labels[i]}, needs, count,
                          options, sums));
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
