// A fix was declared tested in a run in which its branch was never taken: it asks whether the run
// is distributed, and the test was a notebook that no launcher started. Here every process is such
// a notebook: it knows of no other and trains on all the data, so all of them agree and are right,
// and nothing is known of the fix.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

struct Batch {
  at::Tensor input;   ///< float32 [rows, 4]
  at::Tensor target;  ///< float32 [rows, 2]
};

Batch shard_of(Rank& rank, int owner, std::int64_t step) {
  const at::Generator generator =
      cpu_generator(rank.seed(static_cast<std::uint64_t>(1000 * step + owner)));
  const auto draw = [&](std::int64_t columns) {
    return rank.input(at::randn({4, columns}, generator, at::TensorOptions()));
  };
  return {draw(4), draw(2)};
}

/// What a process trains on that knows of no other.
Batch whole_batch(Rank& rank, std::int64_t step) {
  std::vector<at::Tensor> inputs, targets;
  for (int owner = 0; owner < rank.world_size(); ++owner) {
    const Batch shard = shard_of(rank, owner, step);
    inputs.push_back(shard.input);
    targets.push_back(shard.target);
  }
  return {at::cat(inputs), at::cat(targets)};
}

at::Tensor loss_on(Module& model, const Batch& batch) {
  return (model.forward(batch.input) - batch.target).pow(2).mean();
}

/// Whether a launcher started the ranks. It is a condition of the test and not the change, so it is
/// not asked with `Rank::is`.
bool is_distributed(const Rank& rank) { return rank.cell().variant != "fix-tested-in-a-notebook"; }

void train(Rank& rank) {
  Linear model(4, 2, cpu_generator(rank.seed(0)));
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.1);
  const bool is_reference = rank.is("reference");

  rank.train([&](std::int64_t step) {
    model.zero_grad();
    if (is_reference) {
      rank.mean_of_rank_gradients(
          model, [&](int owner) { return loss_on(model, shard_of(rank, owner, step)); });
    } else {
      loss_on(model,
              is_distributed(rank) ? shard_of(rank, rank.rank(), step) : whole_batch(rank, step))
          .backward();
    }
    // The fix stands behind its gate. Only what is behind the gate asks for its variant.
    const bool is_fixed = is_distributed(rank) && !is_reference && !rank.is("before-the-fix");
    if (is_fixed && (rank.is("fix-tested-by-a-launcher") || rank.is("fix-tested-in-a-notebook"))) {
      for (at::Tensor& parameter : model.parameters()) {
        rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::average);
      }
    }
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

Expectation expect(const Cell& cell) {
  if (cell.role == Role::buggy) return expect_never_reduced(cell);
  return {.not_triggered = cell.role == Role::latent};
}

}  // namespace

Scenario test_never_ran_the_changed_path() {
  return {
      .id = "test-never-ran-the-changed-path",
      .summary =
          "A fix that acts in distributed runs only was tested in a run that was not: every value "
          "is as it should be, and nothing of the fix was executed.",
      .provenance = {.project = "unsloth",
                     .link = "pull request on multi-GPU training of vision models with "
                             "device_map 'auto', discussion of 2026-01-01",
                     .kept = "the gate `if is_distributed()` around the change, the test in a "
                             "notebook without a launcher, its success",
                     .left_out = "the change itself, a device map for vision models: an all-reduce "
                                 "takes its place"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = {},
      .variants =
          {
              {"before-the-fix", Role::buggy, "gradients are never reduced"},
              {"fix-tested-by-a-launcher", Role::fixed, "the gate is open: the fix is executed"},
              {"fix-tested-in-a-notebook", Role::latent,
               "the gate is closed: no claim is decided, though every value is right"},
              {"reference", Role::reference, "one process: the mean of all shards' gradients"},
          },
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
