#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <utility>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/segment_rerun.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace autograd = torch::autograd;
using Tensors = std::vector<at::Tensor>;

struct KeptSegment : torch::CustomClassHolder {
  explicit KeptSegment(SegmentRerun kept) : rerun(std::move(kept)) {}
  SegmentRerun rerun;
};

Tensors detached(const Tensors& saved) {
  Tensors leaves;
  for (const at::Tensor& tensor : saved) {
    leaves.push_back(tensor.detach().requires_grad_(tensor.requires_grad()));
  }
  return leaves;
}

/// Backward from the recomputed segment's outputs to its leaves: inputs and parameters.
void nested_backward(const Tensors& outputs, const Tensors& gradients) {
  Tensors roots, gradients_of_roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    gradients_of_roots.push_back(gradients.at(i));
  }
  if (roots.empty()) {
    throw internal_error(
        "no output of a checkpointed segment requires a gradient, there is nothing to recompute");
  }
  autograd::backward(roots, gradients_of_roots);
}

class Reentrant : public autograd::Function<Reentrant> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context,
                                         const c10::intrusive_ptr<KeptSegment>& kept,
                                         at::TensorList inputs) {
    context->saved_data["rerun"] = c10::IValue::make_capsule(kept);
    context->save_for_backward(inputs.vec());
    return kept->rerun.forward(inputs.vec());
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    if (!autograd::Engine::get_default_engine().is_checkpoint_valid()) {
      throw internal_error(
          "a re-entrant checkpoint cannot give chosen gradients, it gives those of all leaves");
    }
    const auto kept = context->saved_data["rerun"].toCapsule();
    const Tensors leaves = detached(context->get_saved_variables());
    nested_backward(c10::static_intrusive_pointer_cast<KeptSegment>(kept)->rerun.again(leaves),
                    gradients);
    autograd::variable_list gradients_of_inputs = {at::Tensor()};  // of the rerun
    for (const at::Tensor& leaf : leaves) gradients_of_inputs.push_back(leaf.grad());
    return gradients_of_inputs;
  }
};

}  // namespace

std::vector<at::Tensor> checkpoint_reentrant(const Segment& segment,
                                             const std::vector<at::Tensor>& inputs,
                                             const CheckpointOptions& options) {
  return Reentrant::apply(c10::make_intrusive<KeptSegment>(SegmentRerun(segment, options)),
                          at::TensorList(inputs));
}

at::Tensor checkpoint_reentrant(const SegmentOfOne& segment, const at::Tensor& input,
                                const CheckpointOptions& options) {
  return checkpoint_reentrant(segment_of_one(segment), Tensors{input}, options).front();
}

}  // namespace lockstep
