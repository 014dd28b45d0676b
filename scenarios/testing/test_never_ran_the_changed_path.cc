// A fix was declared tested after a run that never took its branch. The branch checks whether the
// run is distributed, but the test was a notebook without a launcher. Here every process is such a
// notebook: it knows no other process and trains on all the data. All of them agree and are right,
// and the fix remains untested.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"

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

/// The data of a process that knows no other.
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

void train(Rank& rank) {
  Linear model(4, 2, cpu_generator(rank.seed(0)));
  Training training(rank, model, {.sync = GradientSync::none, .learning_rate = 0.1});
  const bool is_distributed = !rank.has("launcher", "none");
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            return loss_on(model, is_distributed ? shard_of(rank, batch.owner, batch.step)
                                                 : whole_batch(rank, batch.step));
          },
      .reduce =
          [&](std::int64_t) {
            if (!is_distributed) return;
            rank.at_branch();
            if (rank.has("reduced", "each")) average_each(rank.group(), model.parameters());
          },
  });
}

Expectation expect_unreduced(const Cell& cell) { return expect_never_reduced(cell); }

}  // namespace

Scenario test_never_ran_the_changed_path() {
  return {
      .summary =
          "A fix for distributed runs was tested in a run that was not distributed: every value is "
          "right, but the fix was never executed.",
      .origin = {"unsloth",
                 "pull request on device_map 'auto' under several GPUs, discussion of 2026-01-01",
                 "the gate `if is_distributed()`, the test without a launcher, its success",
                 "the change itself, a device map: an all-reduce takes its place"},
      .variants =
          {
              buggy("before-the-fix", "gradients are never reduced", "reduced=never",
                    expect_unreduced),
              fixed("fix-tested-by-a-launcher", "the gate is open, so the fix is executed",
                    "reduced=each"),
              latent("fix-tested-in-a-notebook",
                     "the gate is closed: every value is right, but no claim is decided",
                     "reduced=each launcher=none", always({.not_triggered = true})),
              reference("reference", "one process: the mean of all shards' gradients"),
          },
      .axes = {},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
