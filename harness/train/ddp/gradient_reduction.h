#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"

namespace lockstep {

// What a trainer does that reduces its gradients itself, with no DDP around its model.

/// Averages the gradients of `parameters` over the ranks, one all-reduce after the other in their
/// order. Requires that each has one.
void average_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
                  CallSite site = CallSite::here());

/// The same in one all-reduce of all of them.
void average_flat(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
                  CallSite site = CallSite::here());

/// Gradients that are not there become zeros.
void fill_gradients(const std::vector<at::Tensor>& parameters);

/// A loss (0-dim) whose gradients are zeros, finite whatever was computed before: what a rank
/// contributes that has nothing to contribute.
at::Tensor loss_of_nothing(const Module& module);

/// The least and the largest of what the ranks have: how they come to one decision.
double least_of_ranks(ProcessGroup& group, double mine, CallSite site = CallSite::here());
double largest_of_ranks(ProcessGroup& group, double mine, CallSite site = CallSite::here());

}  // namespace lockstep
