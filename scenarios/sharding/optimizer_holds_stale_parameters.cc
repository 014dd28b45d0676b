// An optimizer holds the parameters that it was given. Engines that shard a model replace its
// parameters, and gradients go to the new ones. An optimizer that is built too early therefore
// finds no gradient, steps nothing, and raises nothing: the loss stays flat. Under FSDP2 that
// happens after a forward, too, because the root then lists whole parameters instead of its shards.

#include <ATen/core/grad_mode.h>

#include "harness/train/loop/training.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 16;  // rows for every rank
constexpr std::int64_t kRows = 4;

/// `inner` is wrapped on its own, `outer` belongs to the root.
struct Nested : Module {
  explicit Nested(const at::Generator& generator)
      : inner(register_module("inner", std::make_shared<Linear>(kWidth, kWidth, generator))),
        outer(register_module("outer", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return (*outer)((*inner)(input).tanh()); }

  std::shared_ptr<Linear> inner, outer;
};

/// Null: DDP, which keeps the parameters.
std::unique_ptr<ShardedModel> shard(Rank& rank, Nested& model) {
  const std::vector<Module*> wrapped{model.inner.get()};
  if (rank.has("engine", "fsdp1")) {
    return std::make_unique<FlatShard>(model, wrapped, rank.group());
  }
  if (rank.has("engine", "fsdp2")) {
    return std::make_unique<FullyShard>(model, wrapped, rank.group());
  }
  return nullptr;
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Training& training) {
  const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
  return squared_error(rank, batch, forward, {kRows}, kWidth, kWidth);
}

/// What `model.parameters()` is in Python: as long as FSDP2 has gathered a group, its module lists
/// whole parameters, otherwise shards.
std::vector<at::Tensor> listed_parameters(const Module& model, const ShardedModel& sharded) {
  std::vector<at::Tensor> listed = model.parameters();
  const std::vector<at::Tensor> shards = sharded.parameters();
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const bool is_gathered = listed[i].storage().nbytes() > 0;
    if (!is_gathered) listed[i] = shards[i];
  }
  return listed;
}

/// The parameters of an optimizer that is built after a run of the model, its validation say.
std::vector<at::Tensor> parameters_after_forward(Rank& rank, Training& training, Nested& model,
                                                 ShardedModel& sharded) {
  {
    const at::NoGradGuard no_grad;
    loss_of(rank, {rank.rank()}, training);
  }
  if (rank.has("after_forward", "resharded")) dynamic_cast<FullyShard&>(sharded).reshard(model);
  return listed_parameters(model, sharded);
}

void train(Rank& rank) {
  Nested model(cpu_generator(rank.seed(0)));
  model.to(rank.device());
  std::vector<at::Tensor> held = model.parameters();  // before anything has replaced them
  const std::unique_ptr<ShardedModel> sharded = rank.is_reference() ? nullptr : shard(rank, model);
  Training training(rank, model, training_options(rank), sharded.get());
  rank.at_branch();
  if (rank.has("built", "after-sharding")) held = sharded->parameters();
  if (rank.has("built", "after-forward")) {
    held = parameters_after_forward(rank, training, model, *sharded);
  }
  const TrainingOptions& options = training.options();
  const auto optimizer = make_optimizer(options.optimizer, held, options.learning_rate);
  training.run({.loss = [&](const MicroBatch& batch) { return loss_of(rank, batch, training); },
                .update = [&](std::int64_t) { optimizer->step(); }});
}

Expectation expect_not_updated(const Cell& cell, std::vector<std::string> tensors) {
  Expectation expectation = expect_wrong_updates(cell, std::move(tensors));
  expectation.pins.back().why = "values are random, and stay what they were";
  return expectation;
}

Expectation expect_nothing_updated(const Cell& cell) {
  return expect_not_updated(cell, {"inner.*", "outer.*"});
}

Expectation expect_root_not_updated(const Cell& cell) {
  return expect_not_updated(cell, {"outer.*"});
}

}  // namespace

Scenario optimizer_holds_stale_parameters() {
  return {
      .summary =
          "The optimizer is built on parameters that the sharding engine then replaces: gradients "
          "are right, and no step changes a weight.",
      .origin =
          {"accelerate, PyTorch",
           "huggingface/accelerate#3256 (2024-11), #3209, #2665; pytorch/pytorch#107843 and "
           "#149205 "
           "(2025-03-14)",
           "an optimizer built before FSDP1 flattens the model, or after a forward of FSDP2; the "
           "repairs by another order, and by resharding first",
           "zero_grad of the stale optimizer, which drops no gradient: here the loop drops them"},
      .variants =
          {buggy("built-before-flattening",
                 "FSDP1: the optimizer holds the parameters from before the flat ones",
                 "engine=fsdp1 built=before-sharding", expect_nothing_updated),
           buggy("built-before-sharding",
                 "FSDP2: the optimizer holds the whole parameters, without their shards",
                 "engine=fsdp2 built=before-sharding", expect_nothing_updated),
           buggy("built-after-forward",
                 "FSDP2: a forward gathers the root, so the optimizer gets its whole parameters",
                 "engine=fsdp2 built=after-forward", expect_root_not_updated),
           latent("built-before-ddp", "DDP keeps the parameters, so the order does not matter",
                  "engine=ddp built=before-sharding"),
           fixed("built-after-flattening", "FSDP1: first the flat parameters, then the optimizer",
                 "engine=fsdp1 built=after-sharding"),
           fixed("built-after-sharding", "FSDP2: first the shards, then the optimizer",
                 "engine=fsdp2 built=after-sharding"),
           fixed("resharded-after-forward",
                 "FSDP2: after the forward the root is resharded, and then lists its shards",
                 "engine=fsdp2 built=after-forward after_forward=resharded"),
           reference("reference", "one process: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = sharded_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
