#include "harness/train/autograd/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {

namespace {

using Values = torch::autograd::variable_list;
using Collective = at::Tensor (*)(ProcessGroup& group, const at::Tensor& tensor);

/// Payload of a graph node.
struct Conjugates : torch::CustomClassHolder {
  Conjugates(ProcessGroup& g, Collective f, Collective b) : group(g), forward(f), backward(b) {}
  ProcessGroup& group;
  Collective forward, backward;
};

class ConjugateCollectives : public torch::autograd::Function<ConjugateCollectives> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const c10::intrusive_ptr<Conjugates>& pair, const at::Tensor& tensor) {
    context->saved_data["pair"] = c10::IValue::make_capsule(pair);
    return pair->forward(pair->group, tensor.detach());
  }

  static Values backward(torch::autograd::AutogradContext* context, const Values& gradients) {
    const auto capsule = context->saved_data["pair"].toCapsule();
    const auto pair = c10::static_intrusive_pointer_cast<Conjugates>(capsule);
    return {at::Tensor(), pair->backward(pair->group, gradients[0])};
  }
};

at::Tensor differentiable(ProcessGroup& group, const at::Tensor& tensor, Collective forward,
                          Collective backward) {
  return ConjugateCollectives::apply(c10::make_intrusive<Conjugates>(group, forward, backward),
                                     tensor);
}

at::Tensor sum(ProcessGroup& group, const at::Tensor& tensor) {
  at::Tensor sum = tensor.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, ReduceOp::sum);
  return sum;
}

at::Tensor gather(ProcessGroup& group, const at::Tensor& part) {
  at::Tensor own = part.contiguous();
  std::vector<std::int64_t> shape = part.sizes().vec();
  shape.front() *= group.size();
  at::Tensor whole = at::empty(shape, part.options());
  group.all_gather(whole, own);
  return whole;
}

at::Tensor scatter_sum(ProcessGroup& group, const at::Tensor& whole) {
  at::Tensor all = whole.contiguous();
  std::vector<std::int64_t> shape = whole.sizes().vec();
  shape.front() /= group.size();
  at::Tensor part = at::empty(shape, whole.options());
  group.reduce_scatter(part, all, ReduceOp::sum);
  return part;
}

at::Tensor exchange(ProcessGroup& group, const at::Tensor& rows) {
  at::Tensor sent = rows.contiguous();
  at::Tensor received = at::empty_like(sent);
  group.all_to_all(received, sent);
  return received;
}

at::Tensor copy(ProcessGroup& /*group*/, const at::Tensor& tensor) { return tensor.clone(); }

}  // namespace

at::Tensor summed_over_ranks(ProcessGroup& group, const at::Tensor& tensor) {
  return differentiable(group, tensor, sum, sum);
}

at::Tensor gathered_over_ranks(ProcessGroup& group, const at::Tensor& part) {
  return differentiable(group, part, gather, scatter_sum);
}

at::Tensor scattered_sum_of_ranks(ProcessGroup& group, const at::Tensor& whole) {
  return differentiable(group, whole, scatter_sum, gather);
}

at::Tensor copied_to_ranks(ProcessGroup& group, const at::Tensor& tensor) {
  return differentiable(group, tensor, copy, sum);
}

at::Tensor sum_on_all_ranks(ProcessGroup& group, const at::Tensor& partial) {
  return differentiable(group, partial, sum, copy);
}

at::Tensor exchanged_between_ranks(ProcessGroup& group, const at::Tensor& rows) {
  return differentiable(group, rows, exchange, exchange);
}

}  // namespace lockstep
