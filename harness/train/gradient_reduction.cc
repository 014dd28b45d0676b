#include "harness/train/gradient_reduction.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "harness/train/micro_batches.h"

namespace lockstep {

void average_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters, CallSite site) {
  for (const at::Tensor& parameter : parameters) {
    group.all_reduce(parameter.mutable_grad(), ReduceOp::average, site);
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
  at::Tensor tensor = at::full({1}, mine, at::kDouble);
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

std::vector<Claim> collective_claims() {
  std::vector<Claim> claims = micro_batch_claims();
  claims.push_back(collectives_match());
  return claims;
}

Expectation expect_tensors_swapped() {
  Expectation expectation = expect_ranks_differ();
  expectation.breaks.push_back(collectives_match());
  return expectation;
}

Expectation expect_ranks_do_not_meet(std::vector<Claim> silent) {
  Expectation expectation{.breaks = std::move(silent)};
  expectation.breaks.insert(expectation.breaks.end(), {ranks_finish(), collectives_match()});
  return expectation;
}

Expectation expect_sizes_differ(const Cell& cell, std::int64_t step) {
  const char* fragment =
      cell.backend == "mpi" ? group_error::kCallsDiffer : group_error::kGlooSizes;
  return {.breaks = {collectives_match()}, .raises = {{.fragment = fragment, .step = step}}};
}

}  // namespace lockstep
