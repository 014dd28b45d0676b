// The trainer wraps its model in DistributedDataParallel and computes the loss on the module inside
// the wrapper. The reducer is never armed: every rank trains a replica of its own, and the
// checkpoint keeps rank 0's.

#include <ATen/TensorOperators.h>

#include "harness/train/cuda_random.h"
#include "harness/train/ddp.h"
#include "harness/train/optimizer.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"

namespace lockstep {

namespace {

/// What one rank trains on in one step: float32 [4, 4] each.
struct Shard4x4 {
  at::Tensor input;
  at::Tensor target;
};

/// As the pull request's script draws it: step s (from 0) seeds the inputs with 1000 + s and the
/// targets with s; the rank moves its inputs, so that shards differ.
Shard4x4 shard_of(const Rank& rank, int owner, std::int64_t step) {
  const auto s = static_cast<std::uint64_t>(step - 1);
  CudaGenerator inputs(rank.seed(1000 + s));
  CudaGenerator targets(rank.seed(s));
  return {inputs.randn({4, 4}) * 0.5 + owner, targets.randn({4, 4})};
}

at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).pow(2).mean();
}

void train(Rank& rank) {
  Linear model(4, 4, cpu_generator(rank.seed(0)));
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.05);
  std::optional<DistributedDataParallel> ddp;
  const bool is_reference = rank.is("reference");
  if (!is_reference) ddp.emplace(model, rank.group());

  rank.train([&](std::int64_t step) {
    const Shard4x4 mine = shard_of(rank, rank.rank(), step);
    model.zero_grad();

    if (is_reference) {
      rank.mean_of_rank_gradients(model, [&](int owner) {
        const Shard4x4 shard = shard_of(rank, owner, step);
        return mean_squared_error(model.forward(shard.input), shard.target);
      });
    } else if (rank.is("through-wrapper")) {
      mean_squared_error(ddp->forward(mine.input), mine.target).backward();
    } else if (rank.is("bypass")) {
      mean_squared_error(ddp->module().forward(mine.input), mine.target).backward();
    } else if (rank.is("all-reduce-each")) {
      mean_squared_error(ddp->module().forward(mine.input), mine.target).backward();
      for (at::Tensor& parameter : model.parameters()) {
        if (!parameter.grad().defined()) continue;
        rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::average);
      }
    }

    rank.observe_gradients(Point::reduced, model);
    optimizer.step();
    rank.observe_parameters(Point::stepped, model);
  });
}

const std::vector<Claim> kClaims{
    agree_across_ranks(Kind::gradient, Point::reduced),
    agree_across_ranks(Kind::parameter, Point::stepped),
    equal_reference(Kind::gradient, Point::reduced),
    equal_reference(Kind::parameter, Point::stepped),
    ranks_finish(),
};

Expectation expect(const Cell& cell) {
  Expectation expectation;
  if (cell.role == Role::buggy) {
    expectation.breaks.assign(kClaims.begin(), kClaims.end() - 1);
  }
  const bool is_published = cell.variant == "bypass" || cell.variant == "all-reduce-each";
  if (is_published && cell.world_size == 2 && cell.steps >= 5 && cell.seed == 0) {
    expectation.meets = {"seed-002-gradients", "seed-002-drift"};
  }
  return expectation;
}

}  // namespace

Scenario loss_on_unwrapped_module() {
  const std::vector<TableSpec::Group> groups{{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}};
  return {
      .id = "loss-on-unwrapped-module",
      .summary =
          "The loss is computed on the module inside the DDP wrapper: gradients are never "
          "synchronised and the replicas drift apart.",
      .provenance = {.project = "SchmiedmayerLab",
                     .link = "pull request #49 (2026-06-27)",
                     .kept = "the toy script: model, seeds, data, learning rate, both tables",
                     .left_out = "NCCL and the GPUs: the random numbers are CUDA's, computed on "
                                 "the CPU; the real pipeline"},
      .worlds = {2, 3, 4},
      .steps = 5,
      .axes = {},
      .variants =
          {
              {"bypass", Role::buggy, "the loss on ddp.module, as the trainer had it"},
              {"all-reduce-each", Role::fixed,
               "the pull request: one averaging all-reduce per gradient after backward"},
              {"through-wrapper", Role::fixed,
               "the loss on the wrapper: the reducer does its work"},
              {"reference", Role::reference, "one process: the mean of all shards' gradients"},
          },
      .claims = kClaims,
      .tables =
          {
              {.title = "Gradient on weight[0] after backward, per rank",
               .quantity = Quantity::element,
               .kind = Kind::gradient,
               .point = Point::reduced,
               .tensor = "weight",
               .element = 0,
               .symbol = "g",
               .digits = 5,
               .groups = groups},
              {.title = "Cross-rank weight drift max|W_i - W_j| after each step",
               .quantity = Quantity::drift,
               .kind = Kind::parameter,
               .point = Point::stepped,
               .tensor = "weight",
               .symbol = "W",
               .digits = 6,
               .groups = groups},
          },
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
