// A rank reduces the gradients that it has. Which ones a backward leaves undefined depends on the
// data, so that ranks call other all-reduces: for other tensors of the same shape, for tensors of
// other sizes, or more of them than the others.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/branches.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

using Parameters = std::vector<at::Tensor>;

/// One number per parameter: whether the rank has its gradient.
at::Tensor presence_of(const Parameters& parameters) {
  at::Tensor presence = at::zeros({static_cast<std::int64_t>(parameters.size())});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].grad().defined()) presence[static_cast<std::int64_t>(i)] = 1;
  }
  return presence;
}

/// The parameters whose number in `presence` is not 0, their gradients zeros where they lack.
Parameters present(const Parameters& parameters, const at::Tensor& presence) {
  Parameters chosen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (presence[static_cast<std::int64_t>(i)].item<float>() > 0) chosen.push_back(parameters[i]);
  }
  fill_gradients(chosen);
  return chosen;
}

/// Where the variants part: which gradients a rank reduces.
void reduce(Rank& rank, const Parameters& parameters) {
  ProcessGroup& group = rank.group();
  at::Tensor presence = presence_of(parameters);
  if (rank.is("skipped-where-none")) {
    average_each(group, present(parameters, presence));
  } else if (rank.is("zero-filled")) {
    fill_gradients(parameters);
    average_each(group, parameters);
  } else if (rank.is("had-by-any")) {
    group.all_reduce(presence, ReduceOp::maximum);
    average_each(group, present(parameters, presence));
  } else if (rank.is("had-by-rank-0")) {
    group.broadcast(presence, 0);
    average_each(group, present(parameters, presence));
  } else if (rank.is("divided-by-those-that-have")) {
    group.all_reduce(presence, ReduceOp::sum);
    average_each(group, present(parameters, presence));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor had_by = presence[static_cast<std::int64_t>(i)];
      parameters[i].mutable_grad() *= group.size() / had_by;
    }
  }
}

/// The trainer logs every rank's loss.
void gather_losses(Rank& rank, at::Tensor loss) {
  at::Tensor losses = at::zeros({rank.group().size()});
  rank.group().all_gather(losses, loss);
}

void train(Rank& rank) {
  Branches model({.inputs = 3, .differs = rank.axis("differs"), .sums_outputs = true},
                 cpu_generator(rank.seed(0)));
  MicroBatchOptions options = micro_batch_options(rank.cell());
  options.wraps = rank.is("ddp-finds-unused");
  options.ddp.find_unused_parameters = true;
  rank.is("reference");
  at::Tensor last_loss;
  options.after_backward = [&](const MicroBatch& batch) {
    if (batch.index + 1 < options.accumulation) return;
    reduce(rank, model.parameters());
    gather_losses(rank, last_loss);
  };
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    model.owner = batch.owner;
    const std::int64_t rows = 2 + batch.owner;
    const at::Tensor input = normal_input(rank, batch, 1000, {rows, 3});
    const at::Tensor output = ddp ? ddp->forward(input) : model.forward(input);
    const at::Tensor loss = (output - normal_input(rank, batch, 500'000, {rows, 4})).pow(2).mean();
    last_loss = loss.detach().reshape({1});
    return loss;
  });
}

/// A gradient that k of W ranks have is divided by k: those of `left` are W times the right ones,
/// those of `right` W / (W - 1) times.
Expectation expect_divided_by_less(const Cell& cell) {
  Expectation expectation = expect_multiple(cell, cell.world_size);
  expectation.pins.front().tensors = {"left.*", "right.*"};
  return expectation;
}

/// Without a branch of their own the others have nothing that rank 0 lacks.
Expectation expect_own_branch(const Cell& cell) {
  if (is_set(cell, "differs", "other-counts")) return expect_hidden();
  const std::string why = "rank 0 has no gradient there, the others have their own";
  return pinned(expect_ranks_differ(), {{.claim = kGradientsAgree,
                                         .steps = {1},
                                         .last_step = cell.steps,
                                         .tensors = {"right.*"},
                                         .groups = each_alone(cell),
                                         .why = why},
                                        {.claim = kGradientsEqual,
                                         .steps = {1},
                                         .last_step = cell.steps,
                                         .tensors = {"right.*"},
                                         .groups = each_alone(cell),
                                         .why = why}});
}

Expectation expect(const Cell& cell) {
  if (cell.variant == "divided-by-those-that-have") return expect_divided_by_less(cell);
  if (cell.variant == "had-by-rank-0") return expect_own_branch(cell);
  if (cell.role != Role::buggy) return {};
  const std::vector<int> culprits = odd_ranks(cell, 0);
  if (is_set(cell, "differs", "same-shapes")) {
    return expect_tensors_swapped(MismatchFault::tensors, {"left.*", "right.*"});
  }
  if (is_set(cell, "differs", "other-sizes")) return expect_sizes_differ(cell, 1, culprits);
  return expect_ranks_do_not_meet(MismatchFault::operation, 1, culprits);
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {.name = "skipped-where-none",
       .role = Role::buggy,
       .summary = "each rank reduces the gradients that it has",
       .limit = 2s},
      {"zero-filled", Role::fixed, "the pull request: a gradient that a rank lacks is zeros"},
      {"had-by-any", Role::fixed,
       "ranks tell each other what they have; what anybody has is reduced, zeros where it lacks"},
      {"ddp-finds-unused", Role::fixed, "DDP with find_unused_parameters does the same"},
      {"had-by-rank-0", Role::wrong_fix,
       "what rank 0 has is reduced by all; of the rest each keeps its own"},
      {"divided-by-those-that-have", Role::wrong_fix,
       "the review's question: zeros are filled in, and the sum is divided by the ranks that had "
       "a gradient"},
      {"reference", Role::reference,
       "one process: the mean of all ranks' gradients; one that is not there counts as zeros"},
  };
}

}  // namespace

Scenario none_gradient_skipped_on_some_ranks() {
  return {
      .id = "none-gradient-skipped-on-some-ranks",
      .summary =
          "Each rank reduces the gradients that its backward left defined: other tensors are "
          "averaged with each other, or the training aborts or hangs.",
      .provenance = {.project = "DeepSpeed, horovod",
                     .link = "microsoft/DeepSpeed#291 (2020-07-15), horovod#597",
                     .kept =
                         "gradients that are None on some ranks and are left out there; zeros in "
                         "their place; the review's question what the sum is divided by",
                     .left_out = "buckets of many gradients, half precision"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = {{"differs", {"same-shapes", "other-sizes", "other-counts"}, "same-shapes"},
               {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
