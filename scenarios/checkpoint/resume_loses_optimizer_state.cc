// A run stops and goes on from a checkpoint. AdamW's moments and its count of steps belong to the
// checkpoint: without them, or with a part of them, weights are right and the next update is not.
// Sharded moments are each rank's own, so a checkpoint that rank 0 writes alone gives all ranks the
// moments of rank 0's shards. Nothing raises, and the loss only jumps a little.

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "harness/train/loop/saved_tensors.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 16;  // rows for every rank
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kSavedAfter = 2;  // steps

struct Checkpoint {
  std::vector<at::Tensor> parameters;
  OptimizerState optimizer;
};

/// Rank 0's tensor for a rank whose own may have fewer rows.
at::Tensor of_rank_0(ProcessGroup& group, const at::Tensor& own) {
  if (own.dim() == 0) return own;
  std::vector<std::int64_t> shape = own.sizes().vec();
  shape.front() = (kWidth + group.size() - 1) / group.size();
  at::Tensor values = at::zeros(shape, own.options());
  if (group.rank() == 0) values.copy_(own);
  group.broadcast(values, 0);
  return values.narrow(0, 0, own.size(0)).clone();
}

/// What is left of the state when it is loaded.
OptimizerState loaded_state(Rank& rank, OptimizerState state) {
  for (std::vector<at::Tensor>& tensors : state) {
    if (rank.has("state", "without-count")) tensors.front() = at::zeros_like(tensors.front());
    if (!rank.has("state", "of-rank-0")) continue;
    for (at::Tensor& tensor : tensors) tensor = of_rank_0(rank.group(), tensor);
  }
  return state;
}

/// A new process: initial weights and a new optimizer, then what it loads.
void resume(Rank& rank, Training& training, const std::vector<at::Tensor>& parameters,
            const std::vector<at::Tensor>& initial, const Checkpoint& checkpoint) {
  rank.at_branch();
  load_tensors(parameters, initial);
  training.renew_optimizer();
  load_tensors(parameters, checkpoint.parameters);
  if (rank.has("state", "lost")) return;
  training.optimizer().load_state(loaded_state(rank, checkpoint.optimizer));
  if (rank.has("then", "new-optimizer")) training.renew_optimizer();
}

void train(Rank& rank) {
  TwoLayers model(kWidth, kWidth, kWidth, cpu_generator(rank.seed(0)));
  model.to(rank.device());
  TrainingOptions options = training_options(rank);
  options.optimizer = "adamw";
  StepHooks hooks{.loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, model, {kRows}, kWidth, kWidth);
  }};
  if (rank.is_reference()) return Training(rank, model, options).run(hooks);
  FullyShard sharded(model, {}, rank.group());
  const std::vector<at::Tensor> parameters = sharded.parameters();
  const std::vector<at::Tensor> initial = saved_tensors(parameters);
  Training training(rank, model, options, &sharded);
  Checkpoint checkpoint;
  hooks.after = [&](std::int64_t step) {
    if (step == kSavedAfter) {
      checkpoint = {saved_tensors(parameters), training.optimizer().state()};
    }
  };
  hooks.before = [&](std::int64_t step) {
    if (step == kSavedAfter + 1) resume(rank, training, parameters, initial, checkpoint);
  };
  training.run(hooks);
}

/// The first gradients of the resumed run are right, but not what the optimizer makes of them.
Expectation expect_wrong_after_resuming(const Cell& cell) {
  const std::vector<std::string> all{"up.*", "down.*"};
  return pinned(expect_wrong_shards(), {{.claim = kParametersEqual,
                                         .steps = {kSavedAfter + 1},
                                         .last_step = cell.steps,
                                         .tensors = all,
                                         .why = "weights are random"},
                                        {.claim = kGradientsEqual,
                                         .steps = {kSavedAfter + 2},
                                         .last_step = cell.steps,
                                         .tensors = all,
                                         .why = "gradients are random"}});
}

std::string resume_precondition(const Cell& cell) {
  return cell.steps >= kSavedAfter + 2 ? "" : "the resumed run needs two steps to show a wrong one";
}

}  // namespace

Scenario resume_loses_optimizer_state() {
  return {
      .summary =
          "A resumed run has the weights of its checkpoint, but not the optimizer's whole state: "
          "its first update is another one.",
      .origin =
          {"miles-credit, KempnerForge, OpenNMT-py, SkyRL",
           "NCAR/miles-credit#407, KempnerInstitute/KempnerForge#115 (2026-05-27), "
           "OpenNMT/OpenNMT-py#617 (2018-03-19), NovaSky-AI/SkyRL#1403 (2026-03-28)",
           "a restart between two steps; moments that are dropped, those of rank 0, a count that "
           "starts again; the state that a new optimizer erases",
           "files and other processes: here the ranks go on with new weights and a new optimizer, "
           "and load what they kept"},
      .variants = {buggy("state-dropped", "the checkpoint has weights alone: AdamW begins anew",
                         "state=lost", expect_wrong_after_resuming),
                   buggy("state-of-rank-0",
                         "rank 0 saves the moments of its shards, and all ranks load them",
                         "state=of-rank-0", expect_wrong_after_resuming),
                   wrong_fix("loaded-then-rebuilt",
                             "the state is loaded, and then the optimizer is built anew without it",
                             "state=whole then=new-optimizer", expect_wrong_after_resuming),
                   wrong_fix("moments-without-count",
                             "the moments are loaded, but the bias correction begins with step 1",
                             "state=without-count", expect_wrong_after_resuming),
                   fixed("state-of-every-rank",
                         "each rank saves and loads its own moments and count", "state=whole"),
                   reference("reference", "one process that never stops")},
      .steps = 5,
      .claims = sharded_claims(),
      .precondition = resume_precondition,
      .body = train,
  };
}

}  // namespace lockstep
