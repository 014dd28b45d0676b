// The trainer in which the loss on the unwrapped module was found, in small: a transformer on time
// series, curriculum stages, a distributed sampler, AdamW with a warm-up from learning rate 0,
// clipping, and a checkpoint that rank 0 alone writes. Its weights do not drift for two steps
// although its gradients differ from the first; what the other ranks learnt is thrown away at the
// end of each stage.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <numbers>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/checkpoint.h"
#include "harness/train/loop/sampler.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/optim/clip_grad_norm.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kSeries = 64;
constexpr std::int64_t kBatch = 4;  // of a rank
constexpr std::int64_t kStageSteps = 4;
constexpr std::int64_t kWarmUpSteps = 8;
constexpr double kLearningRate = 2e-3;
constexpr double kMaxNorm = 1.0;
constexpr TransformerOptions kModel{
    .length = 32, .patch = 8, .width = 16, .heads = 2, .hidden = 32, .blocks = 1, .classes = 4};

/// The series of one stage, [kSeries, length], and their classes: waves of 1 to 4 periods at a
/// random phase, with more noise in every stage.
struct Dataset {
  at::Tensor series;
  at::Tensor classes;
};

Dataset dataset_of(const Rank& rank, std::int64_t stage) {
  const at::Generator generator = cpu_generator(rank.seed(100 + static_cast<std::uint64_t>(stage)));
  const at::TensorOptions options;
  const at::Tensor classes = at::randint(kModel.classes, {kSeries}, generator, at::kLong);
  const at::Tensor phase = at::randn({kSeries, 1}, generator, options);
  const at::Tensor time =
      at::arange(kModel.length, options) * (2 * std::numbers::pi / kModel.length);
  const at::Tensor wave = ((classes.unsqueeze(1) + 1) * time + phase).sin();
  const at::Tensor noise = at::randn(wave.sizes(), generator, options);
  return {wave + 0.1 * static_cast<double>(stage) * noise, classes};
}

/// One stage of the curriculum: its own data, optimizer and warm-up.
class Stage {
 public:
  Stage(Rank& rank, Module& model, std::int64_t number)
      : rank_(rank),
        model_(model),
        data_(dataset_of(rank, number)),
        optimizer_(make_optimizer("adamw", model.parameters(), kLearningRate)) {}

  /// The loss of `owner`'s batch in step `step` of the stage, from 0.
  template <class Forward>
  at::Tensor loss(int owner, std::int64_t step, const Forward& forward) {
    DistributedSampler sampler(kSeries, rank_.world_size(), owner, rank_.seed(0));
    sampler.set_epoch(step);
    std::vector<std::int64_t> indices = sampler.indices();
    indices.resize(kBatch);
    const at::Tensor chosen = at::tensor(indices);
    const at::Tensor logits = forward(rank_.input(data_.series.index_select(0, chosen)));
    return at::cross_entropy_loss(logits, data_.classes.index_select(0, chosen));
  }

  /// The rest of a step, from 0, once the gradients are there.
  void finish(std::int64_t step) {
    clip_grad_norm(model_.parameters(), kMaxNorm);
    const double warmth = std::min(1.0, static_cast<double>(step) / kWarmUpSteps);
    optimizer_->set_learning_rate(kLearningRate * warmth);
    optimizer_->step();
  }

 private:
  Rank& rank_;
  Module& model_;
  Dataset data_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Rank 0 writes what it has, and everybody goes on from there. For one process nothing changes.
void pass_checkpoint(Rank& rank, Module& model, std::int64_t stage) {
  const auto file = rank.folder() / fmt::format("checkpoint.stage-{}.safetensors", stage);
  if (rank.rank() == 0) save_checkpoint(model, file);
  rank.group().barrier();
  load_checkpoint(model, file);
}

void leave_gradients(Rank& rank, DistributedDataParallel& ddp, Stage& stage, std::int64_t step) {
  const auto on_wrapper = [&](const at::Tensor& series) { return ddp.forward(series); };
  const auto on_module = [&](const at::Tensor& series) { return ddp.module().forward(series); };
  if (rank.is("through-wrapper")) {
    stage.loss(rank.rank(), step, on_wrapper).backward();
  } else if (rank.is("bypass")) {
    stage.loss(rank.rank(), step, on_module).backward();
  } else if (rank.is("all-reduce-each")) {
    stage.loss(rank.rank(), step, on_module).backward();
    for (at::Tensor& parameter : ddp.module().parameters()) {
      if (!parameter.grad().defined()) continue;
      rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::average);
    }
  }
}

void train(Rank& rank) {
  TimeSeriesTransformer model(kModel, cpu_generator(rank.seed(0)));
  std::optional<DistributedDataParallel> ddp;
  const bool is_reference = rank.is("reference");
  if (!is_reference) ddp.emplace(model, rank.group());
  std::optional<Stage> stage;

  rank.train([&](std::int64_t step) {
    const std::int64_t number = (step - 1) / kStageSteps + 1;
    const std::int64_t step_of_stage = (step - 1) % kStageSteps;
    if (step_of_stage == 0) stage.emplace(rank, model, number);
    rank.observe_parameters(Phase::pre_forward, model);
    model.zero_grad();
    if (is_reference) {
      rank.mean_of_rank_gradients(model, [&](int owner) {
        return stage->loss(owner, step_of_stage,
                           [&](const at::Tensor& x) { return model.forward(x); });
      });
    } else {
      leave_gradients(rank, *ddp, *stage, step_of_stage);
    }
    rank.observe_gradients(Phase::pre_step, model);  // clipping comes after it, as in the trainer
    stage->finish(step_of_stage);
    rank.observe_parameters(Phase::post_step, model);
    if (ddp && step_of_stage + 1 == kStageSteps) pass_checkpoint(rank, model, number);
  });
}

Expectation expect(const Cell& cell) {
  Expectation expectation;
  if (cell.role == Role::buggy) {
    // In step 1 the learning rate is 0, and no weight has moved yet.
    expectation = expect_never_reduced(cell, /*parameters_move=*/cell.steps > 1);
  }
  const bool is_published = cell.variant == "bypass" || cell.variant == "all-reduce-each";
  if (is_published && cell.world_size == 2 && cell.steps >= 4 && cell.seed == 0) {
    expectation.meets = {"opentslm-49-pipeline"};
  }
  return expectation;
}

std::vector<TableSpec> tables() {
  const std::vector<TableSpec::Group> groups{
      {"BUGGY (loss on the module, no all-reduce)", "bypass"},
      {"FIXED (+ all-reduce grads after backward)", "all-reduce-each"}};
  return {
      {.title = "Gradients, and the weights before each step",
       .quantity = Quantity::norm,
       .kind = Kind::gradient,
       .phase = Phase::pre_step,
       .digits = 3,
       .groups = groups,
       .first_step = 0},
      {.title = "What the checkpoint of rank 0 discards: max|W_i - W_0| at the end of each stage",
       .quantity = Quantity::distance,
       .kind = Kind::parameter,
       .phase = Phase::post_step,
       .symbol = "W",
       .digits = 3,
       .groups = {{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}},
       .first_step = 0,
       .steps = {4, 8, 12, 16, 20}},
  };
}

}  // namespace

Scenario loss_on_unwrapped_module_pipeline() {
  return {
      .id = "loss-on-unwrapped-module-pipeline",
      .summary =
          "The same in a whole trainer: gradients differ from the first step, weights only after "
          "the warm-up began, and the checkpoint discards what the other ranks learnt.",
      .provenance = {.project = "SchmiedmayerLab",
                     .link = "pull request #49 (2026-06-27)",
                     .kept = "curriculum stages, distributed sampler, the checkpoint of rank 0, "
                             "the columns of the table",
                     .left_out = "the language model and its data: a small transformer on "
                                 "synthetic series takes their place, so the table is met in shape "
                                 "and not in its digits; the pull request does not show optimizer, "
                                 "warm-up, clipping and how a stage begins: here they are AdamW, "
                                 "from learning rate 0, by norm, and from the checkpoint"},
      .worlds = worlds_from(2),
      .steps = 2 * kStageSteps,
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
      .claims = replica_claims(),
      .tables = tables(),
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
