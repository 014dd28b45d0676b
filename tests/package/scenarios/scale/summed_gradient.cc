// A trainer sums its gradients over the ranks by hand and never divides. The ranks agree in every
// bit, so the error stays unnoticed; the step is too long by a factor of the world size.

#include <ATen/ops/randn.h>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/nn/module.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

at::Tensor shard_of(Rank& rank, int owner, std::int64_t step) {
  const auto seed = rank.seed(static_cast<std::uint64_t>(100 * step + owner));
  return rank.input(at::randn({3, 4}, cpu_generator(seed), at::TensorOptions()));
}

void train(Rank& rank) {
  Linear model(4, 2, cpu_generator(rank.seed(0)));
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.05);
  const auto loss_of = [&](int owner, std::int64_t step) {
    return model.forward(shard_of(rank, owner, step)).pow(2).mean();
  };
  const auto reduce = [&](ReduceOp op) {
    for (at::Tensor& parameter : model.parameters()) {
      rank.group().all_reduce(parameter.mutable_grad(), op);
    }
  };

  rank.train([&](std::int64_t step) {
    model.zero_grad();
    if (rank.is_reference()) {
      rank.mean_of_rank_gradients(model, [&](int owner) { return loss_of(owner, step); });
    } else {
      loss_of(rank.rank(), step).backward();
    }
    rank.at_branch();
    if (rank.is("sum")) reduce(ReduceOp::sum);
    if (rank.is("mean")) reduce(ReduceOp::average);
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

Expectation expect(const Cell& cell) {
  return cell.role == Role::buggy ? expect_multiple(cell, cell.world_size) : Expectation{};
}

}  // namespace

Scenario summed_gradient() {
  return {
      .summary = "The gradients are summed over the ranks and never divided by their number.",
      .origin = {"Lockstep's tests", "tests/package", "the mistake", "nothing"},
      .variants = {buggy("sum", "all-reduce with sum"), fixed("mean", "all-reduce with average"),
                   reference("reference", "one process: the mean of the gradients")},
      .worlds = {2, 3, 4},
      .axes = {},
      .claims = replica_claims(),
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
