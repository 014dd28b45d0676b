#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/module.h"
#include "harness/train/scenario.h"

namespace lockstep {

// What a trainer does that reduces its gradients itself, with no DDP around its model, and what
// cells declare in which ranks do not call the same collectives.

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

/// What is true of a correct step, `collectives match` among it.
std::vector<Claim> collective_claims();

/// Nobody complains: gradients were reduced with gradients of other tensors.
Expectation expect_tensors_swapped();

/// A rank waits in a collective, or is told by the backend, that the others do not come to.
/// `silent`: claims that were violated before.
Expectation expect_ranks_do_not_meet(std::vector<Claim> silent = {});

/// A rank calls a collective for less than the others, and the backend notices: Gloo ends the
/// process, in which an I/O thread throws; Lockstep's MPI backend refuses the call.
Expectation expect_sizes_differ(const Cell& cell, std::int64_t step);

}  // namespace lockstep
