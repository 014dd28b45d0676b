#include "harness/train/ddp/gradient_reduction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace lockstep {

void average_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters, CallSite site) {
  for (const at::Tensor& parameter : parameters) {
    group.all_reduce(parameter.mutable_grad(), ReduceOp::average, site);
  }
}

void sum_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters, CallSite site) {
  for (const at::Tensor& parameter : parameters) {
    group.all_reduce(parameter.mutable_grad(), ReduceOp::sum, site);
  }
}

void sum_by_hooks(ProcessGroup& group, const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    parameter.register_hook([&group](const at::Tensor& gradient) {
      at::Tensor sum = gradient.clone();
      group.all_reduce(sum, ReduceOp::sum);
      return sum;
    });
  }
}

void average_flat(ProcessGroup& group, const std::vector<at::Tensor>& parameters, CallSite site) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : parameters) parts.push_back(parameter.grad().flatten());
  at::Tensor flat = at::cat(parts);
  group.all_reduce(flat, ReduceOp::average, site);
  std::int64_t begin = 0;
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad().copy_(flat.narrow(0, begin, parameter.numel()).view_as(parameter));
    begin += parameter.numel();
  }
}

at::Tensor sum_bucket(ProcessGroup& group, const at::Tensor& bucket) {
  at::Tensor sum = bucket;  // the same storage
  group.all_reduce(sum, ReduceOp::sum);
  return sum;
}

void broadcast_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters, CallSite site) {
  for (const at::Tensor& parameter : parameters) {
    at::Tensor values = parameter.detach();
    group.broadcast(values, 0, site);
  }
}

void fill_gradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
  }
}

at::Tensor loss_of_nothing(const Module& module) {
  at::Tensor loss;
  for (const at::Tensor& parameter : module.parameters()) {
    const at::Tensor nothing = parameter.sum() * 0;
    loss = loss.defined() ? loss + nothing : nothing;
  }
  return loss;
}

namespace {

double of_ranks(ProcessGroup& group, double mine, ReduceOp op, CallSite site) {
  at::Tensor tensor = at::full({1}, mine, at::device(group.device()).dtype(at::kDouble));
  group.all_reduce(tensor, op, site);
  return tensor.item<double>();
}

}  // namespace

double least_of_ranks(ProcessGroup& group, double mine, CallSite site) {
  return of_ranks(group, mine, ReduceOp::minimum, site);
}

double largest_of_ranks(ProcessGroup& group, double mine, CallSite site) {
  return of_ranks(group, mine, ReduceOp::maximum, site);
}

double mean_of_ranks(ProcessGroup& group, double mine, CallSite site) {
  return of_ranks(group, mine, ReduceOp::average, site);
}

bool decision_of_rank_0(ProcessGroup& group, bool mine, CallSite site) {
  at::Tensor decision = at::zeros({1}, group.device()) + (mine ? 1 : 0);
  group.broadcast(decision, 0, site);
  return decision.item<float>() > 0;
}

}  // namespace lockstep
