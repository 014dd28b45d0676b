// A module is excluded from sharding, because its dtype or its shapes do not suit the engine. FSDP
// then neither broadcasts its weights nor reduces its gradients: every rank trains a whole copy on
// its own data, beside shards that all ranks train together. Checkpoints keep rank 0's.

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 16;  // rows for every rank
constexpr std::int64_t kRows = 4;

struct WithSmoothing : Module {
  /// `smooth_generator` draws the module that is excluded.
  WithSmoothing(const at::Generator& generator, const at::Generator& smooth_generator)
      : body(register_module("body", std::make_shared<Linear>(kWidth, kWidth, generator))),
        smooth(register_module("smooth",
                               std::make_shared<Linear>(kWidth, kWidth, smooth_generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return (*smooth)((*body)(input).tanh()); }

  std::shared_ptr<Linear> body, smooth;
};

/// The excluded module is rank 0's on every rank, or of the rank's own drawing.
std::uint64_t smooth_seed(const Rank& rank) {
  const bool is_own = rank.has("weights", "own") || rank.has("weights", "broadcast");
  return rank.seed(1000 + static_cast<std::uint64_t>(is_own ? rank.rank() : 0));
}

/// Reduces the gradients that the engine does not reduce.
void reduce_ignored(Rank& rank, const std::vector<at::Tensor>& ignored) {
  if (rank.has("gradients", "averaged")) average_each(rank.group(), ignored);
  if (!rank.has("gradients", "summed")) return;
  for (const at::Tensor& parameter : ignored) {
    rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::sum);
  }
}

void train(Rank& rank) {
  WithSmoothing model(cpu_generator(rank.seed(0)), cpu_generator(smooth_seed(rank)));
  model.to(rank.device());
  StepHooks hooks{.loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, model, {kRows}, kWidth, kWidth);
  }};
  if (rank.is_reference()) return Training(rank, model, training_options(rank)).run(hooks);
  rank.at_branch();
  std::vector<at::Tensor> ignored;
  if (!rank.has("smooth", "sharded")) ignored = model.smooth->parameters();
  FullyShard sharded(model, {model.body.get()}, rank.group(), {.ignored_params = ignored});
  Training training(rank, model, training_options(rank), &sharded);
  name_parameters(model);
  if (rank.has("weights", "broadcast")) broadcast_each(rank.group(), ignored);
  hooks.before = [&](std::int64_t step) {
    if (step == 1) rank.observe_parameters(Phase::pre_forward, sharded);
  };
  hooks.reduce = [&](std::int64_t) { reduce_ignored(rank, ignored); };
  training.run(hooks);
}

Expectation expect_copies_apart(const Cell& cell) { return expect_apart(cell, {"smooth.*"}); }

/// The mean of gradients of different copies.
Expectation expect_own_starts(const Cell& cell) {
  return expect_starts_apart(cell, {"smooth.*"}, {"body.*", "smooth.*"});
}

/// Only the copies' gradients are as many times too large as there are ranks. With AdamW, which
/// divides by their size, it would be left to its epsilon whether that shows in the weights.
Expectation expect_copies_summed(const Cell& cell) {
  return expect_multiple_of(cell, {"smooth.*"}, cell.world_size);
}

/// Of the copies; shards have none.
Variant with_copies(const Variant& variant) {
  return variant.with_claims({kInitialParametersAgree, kGradientsAgree, kParametersAgree});
}

}  // namespace

Scenario ignored_module_never_synchronised() {
  return {
      .summary =
          "A module that is excluded from sharding is excluded from the reduction, too: each rank "
          "trains its own copy.",
      .origin = {"PyTorch, OSTQuant",
                 "pytorch/pytorch#98281 (2023-04-04), #104494; BrotherHappy/OSTQuant#15",
                 "a trained module that the engine ignores; the maintainers' reason not to reduce "
                 "it: it may be parallel in another way",
                 "FSDP1, whose ignored_modules these threads are about: here ignored_params of "
                 "FSDP2, which neither broadcasts nor reduces, either"},
      .variants =
          {with_copies(buggy("never-synchronised",
                             "FSDP2 ignores the module, and nobody reduces its gradients",
                             "smooth=ignored weights=alike gradients=own", expect_copies_apart)),
           with_copies(wrong_fix(
               "all-reduce-each", "its gradients are averaged, but each rank has drawn its weights",
               "smooth=ignored weights=own gradients=averaged", expect_own_starts)),
           with_copies(wrong_fix("all-reduce-summed",
                                 "its gradients are summed beside FSDP2's means: world size times",
                                 "smooth=ignored weights=alike gradients=summed optimizer=sgd",
                                 expect_copies_summed)),
           with_copies(fixed("averaged-by-hand",
                             "equal weights on all ranks, and an all-reduce for each gradient",
                             "smooth=ignored weights=alike gradients=averaged")),
           with_copies(fixed("broadcast-and-averaged",
                             "rank 0's weights for all, and an all-reduce for each gradient",
                             "smooth=ignored weights=broadcast gradients=averaged")),
           fixed("not-ignored", "FSDP2 shards the module, and reduces what it shards",
                 "smooth=sharded weights=alike"),
           reference("reference", "one process: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = sharded_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
