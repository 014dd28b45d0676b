#include "harness/train/autograd/summed_over_ranks.h"

#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

namespace {

using Values = torch::autograd::variable_list;

/// Payload of a graph node.
struct GroupOfSum : torch::CustomClassHolder {
  explicit GroupOfSum(ProcessGroup& g) : group(g) {}
  ProcessGroup& group;
};

at::Tensor sum_of(ProcessGroup& group, const at::Tensor& tensor) {
  at::Tensor sum = tensor.detach().clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, ReduceOp::sum);
  return sum;
}

class SumOverRanks : public torch::autograd::Function<SumOverRanks> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const c10::intrusive_ptr<GroupOfSum>& group, const at::Tensor& tensor) {
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    return sum_of(group->group, tensor);
  }

  static Values backward(torch::autograd::AutogradContext* context, const Values& gradients) {
    const auto group = context->saved_data["group"].toCapsule();
    return {at::Tensor(),
            sum_of(c10::static_intrusive_pointer_cast<GroupOfSum>(group)->group, gradients[0])};
  }
};

}  // namespace

at::Tensor summed_over_ranks(ProcessGroup& group, const at::Tensor& tensor) {
  return SumOverRanks::apply(c10::make_intrusive<GroupOfSum>(group), tensor);
}

}  // namespace lockstep
