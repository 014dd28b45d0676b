#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"

namespace lockstep {

// What DDP does for its parameters, by hand: for a trainer without it, or for parameters that it
// does not know.

/// Averages the gradients of `parameters` over the ranks, with one all-reduce each, in order.
/// Requires: each has one.
void average_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
                  CallSite site = CallSite::here());

/// The same sum without the division.
void sum_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
              CallSite site = CallSite::here());

/// From now on, the gradient of each parameter is summed over the ranks as soon as autograd has
/// computed it, before it is added to those of earlier passes. `group` outlives the parameters.
void sum_by_hooks(ProcessGroup& group, const std::vector<at::Tensor>& parameters);

/// Averages them with a single all-reduce.
void average_flat(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
                  CallSite site = CallSite::here());

/// A communication hook of DDP that sums buckets over the ranks, for a trainer that divides itself.
at::Tensor sum_bucket(ProcessGroup& group, const at::Tensor& bucket);

/// Rank 0's values for all, with one broadcast each, in order.
void broadcast_each(ProcessGroup& group, const std::vector<at::Tensor>& parameters,
                    CallSite site = CallSite::here());

/// Sets missing gradients to zeros.
void fill_gradients(const std::vector<at::Tensor>& parameters);

/// A loss (0-dim) whose gradients are zeros, finite whatever was computed before. For a rank
/// without data.
at::Tensor loss_of_nothing(const Module& module);

/// The minimum, the maximum and the mean over the ranks, for a common decision.
double least_of_ranks(ProcessGroup& group, double mine, CallSite site = CallSite::here());
double largest_of_ranks(ProcessGroup& group, double mine, CallSite site = CallSite::here());
double mean_of_ranks(ProcessGroup& group, double mine, CallSite site = CallSite::here());

/// What rank 0 decides, by a broadcast.
bool decision_of_rank_0(ProcessGroup& group, bool mine, CallSite site = CallSite::here());

}  // namespace lockstep
