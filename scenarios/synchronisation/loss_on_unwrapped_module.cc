// The trainer wraps its model in DistributedDataParallel and computes the loss on the module inside
// the wrapper. The reducer is never armed: every rank trains a replica of its own, and the
// checkpoint keeps rank 0's. Beside the toy script of the pull request stand the remarks of its
// review (missing gradients, one flat buffer) and the repairs that are easily got wrong.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <string_view>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/optim/clip_grad_norm.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/cuda_random.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr double kMaxNorm = 0.25;  // below the norm of any rank's gradients, so that clipping acts

/// A layer that all ranks use and a branch behind it that depends on the rank: rank 0 takes `left`,
/// the others take `right` where there is one.
class Branches : public Module {
 public:
  Branches(const std::string& differs, const at::Generator& generator)
      : trunk_(register_module("trunk", std::make_shared<Linear>(4, 4, generator))),
        left_(register_module("left", std::make_shared<Linear>(4, 4, generator))) {
    if (differs == "other-counts") return;
    const std::int64_t width = differs == "other-sizes" ? 8 : 4;
    right_ = register_module("right", std::make_shared<Linear>(4, width, generator));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = trunk_->forward(input);
    const std::shared_ptr<Linear>& branch = owner == 0 ? left_ : right_;
    return branch
               ? branch->forward(hidden).reshape({-1, 4, branch == left_ ? 1 : width() / 4}).mean(2)
               : hidden;
  }

  int owner = 0;  ///< the rank whose shard is computed

 private:
  std::int64_t width() const { return right_->parameters()[0].size(0); }

  std::shared_ptr<Linear> trunk_, left_, right_;
};

class Normalised : public Module {
 public:
  explicit Normalised(const at::Generator& generator)
      : norm_(register_module("norm", std::make_shared<BatchNorm1d>(4))),
        linear_(register_module("linear", std::make_shared<Linear>(4, 4, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return linear_->forward(norm_->forward(input));
  }

 private:
  std::shared_ptr<BatchNorm1d> norm_;
  std::shared_ptr<Linear> linear_;
};

/// Variants and their references name the condition that they share.
bool is_about(const Rank& rank, std::string_view condition) {
  return rank.cell().variant.find(condition) != std::string::npos;
}

std::unique_ptr<Module> make_model(const Rank& rank) {
  const at::Generator generator = cpu_generator(rank.seed(0));
  if (has_axis(rank.cell(), "differs")) {
    return std::make_unique<Branches>(rank.axis("differs"), generator);
  }
  if (is_about(rank, "buffers")) return std::make_unique<Normalised>(generator);
  return std::make_unique<Linear>(4, 4, generator);
}

/// What one rank trains on in one step: float32 [rows, 4] each.
struct Shard {
  int owner = 0;
  at::Tensor input;
  at::Tensor target;
};

std::int64_t rows_of(const Rank& rank, int owner) {
  return is_about(rank, "uneven") ? 2 * (owner + 1) : 4;
}

/// As the pull request's script draws it: step s (from 0) seeds the inputs with 1000 + s and the
/// targets with s; the rank moves its inputs, so that shards differ.
Shard shard_of(Rank& rank, int owner, std::int64_t step) {
  const auto s = static_cast<std::uint64_t>(step - 1);
  CudaGenerator inputs(rank.seed(1000 + s));
  CudaGenerator targets(rank.seed(s));
  const std::int64_t rows = rows_of(rank, owner);
  return {owner, rank.input(inputs.randn({rows, 4}) * 0.5 + owner),
          rank.input(targets.randn({rows, 4}))};
}

at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target) {
  return (output - target).pow(2).mean();
}

at::Tensor loss_on(Module& module, const Shard& shard) {
  if (auto* branches = dynamic_cast<Branches*>(&module)) branches->owner = shard.owner;
  return mean_squared_error(module.forward(shard.input), shard.target);
}

/// The rank's part of the mean over all rows, times the number of ranks that DDP divides by.
double weight_of(const Rank& rank) {
  std::int64_t rows = 0;
  for (int owner = 0; owner < rank.world_size(); ++owner) rows += rows_of(rank, owner);
  return static_cast<double>(rows_of(rank, rank.rank()) * rank.world_size()) /
         static_cast<double>(rows);
}

void compute_reference(Rank& rank, Module& model, std::int64_t step) {
  if (rank.is("reference-uneven-batch-mean")) {
    std::vector<at::Tensor> inputs, targets;
    for (int owner = 0; owner < rank.world_size(); ++owner) {
      const Shard shard = shard_of(rank, owner, step);
      inputs.push_back(shard.input);
      targets.push_back(shard.target);
    }
    mean_squared_error(model.forward(at::cat(inputs)), at::cat(targets)).backward();
    return;
  }
  rank.mean_of_rank_gradients(
      model, [&](int owner) { return loss_on(model, shard_of(rank, owner, step)); });
  if (rank.is("reference-clipped")) clip_grad_norm(model.parameters(), kMaxNorm);
  rank.is(rank.cell().variant);  // the other references differ in model and data alone
}

/// Where the variants part first: whose forward is called, and what arms the reducer.
void backward(Rank& rank, DistributedDataParallel& ddp, const Shard& mine, std::int64_t step) {
  const auto through_wrapper = [&] {
    const auto outputs = ddp.forward([&]() -> std::vector<at::Tensor> {
      rank.observe_buffers(Phase::pre_forward, ddp.module());
      return {ddp.module().forward(mine.input)};
    });
    return mean_squared_error(outputs.front(), mine.target);
  };
  if (rank.is("through-wrapper") || rank.is("through-wrapper-with-buffers") ||
      rank.is("uneven-shards-rank-means") || rank.is("uneven-shards-batch-mean")) {
    return through_wrapper().backward();
  }
  if (rank.is("uneven-shards-weighted")) return (through_wrapper() * weight_of(rank)).backward();

  if (rank.is("bypass-after-no-grad-forward")) {
    const at::NoGradGuard no_grad;
    ddp.forward(mine.input);
  } else if (rank.is("bypass-after-armed-forward") ||
             (rank.is("bypass-armed-every-kth-step") && step % std::stoll(rank.axis("k")) == 0)) {
    ddp.forward(mine.input);
  } else if (rank.is("buffers-left-behind")) {
    rank.observe_buffers(Phase::pre_forward, ddp.module());
  }
  loss_on(ddp.module(), mine).backward();
}

void all_reduce_each(Rank& rank, Module& model, ReduceOp op) {
  for (at::Tensor& parameter : model.parameters()) {
    if (parameter.grad().defined()) rank.group().all_reduce(parameter.mutable_grad(), op);
  }
}

void all_reduce_flat(Rank& rank, Module& model) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : model.parameters())
    parts.push_back(parameter.grad().flatten());
  at::Tensor flat = at::cat(parts);
  rank.group().all_reduce(flat, ReduceOp::average);
  std::int64_t begin = 0;
  for (at::Tensor& parameter : model.parameters()) {
    parameter.mutable_grad().copy_(flat.narrow(0, begin, parameter.numel()).view_as(parameter));
    begin += parameter.numel();
  }
}

/// Where they part then: what is done about the gradients that nobody reduced.
void reduce_by_hand(Rank& rank, Module& model) {
  if (rank.is("bypass")) return;
  if (rank.is("all-reduce-each") || rank.is("skip-missing") || rank.is("buffers-left-behind")) {
    all_reduce_each(rank, model, ReduceOp::average);
  } else if (rank.is("all-reduce-flat")) {
    all_reduce_flat(rank, model);
  } else if (rank.is("all-reduce-zero-filled")) {
    for (at::Tensor& parameter : model.parameters()) {
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    }
    all_reduce_each(rank, model, ReduceOp::average);
  } else if (rank.is("sum-not-averaged")) {
    all_reduce_each(rank, model, ReduceOp::sum);
  } else if (rank.is("divided-twice")) {
    all_reduce_each(rank, model, ReduceOp::average);
    for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() /= rank.world_size();
  } else if (rank.is("clipped-before")) {
    clip_grad_norm(model.parameters(), kMaxNorm);
    all_reduce_each(rank, model, ReduceOp::average);
  } else if (rank.is("clipped-after")) {
    all_reduce_each(rank, model, ReduceOp::average);
    clip_grad_norm(model.parameters(), kMaxNorm);
  } else if (rank.is("only-matrices-reduced")) {
    for (at::Tensor& parameter : model.parameters()) {
      if (parameter.dim() < 2) continue;
      rank.group().all_reduce(parameter.mutable_grad(), ReduceOp::average);
    }
  }
}

void train(Rank& rank) {
  const std::unique_ptr<Module> model = make_model(rank);
  const auto optimizer =
      make_optimizer(rank.axis("optimizer"), model->parameters(), /*learning_rate=*/0.05);
  std::optional<DistributedDataParallel> ddp;
  if (rank.cell().role != Role::reference) ddp.emplace(*model, rank.group());

  rank.train([&](std::int64_t step) {
    model->zero_grad();
    if (ddp) {
      backward(rank, *ddp, shard_of(rank, rank.rank(), step), step);
      reduce_by_hand(rank, *model);
    } else {
      compute_reference(rank, *model, step);
    }
    rank.observe_gradients(Phase::pre_step, *model);
    optimizer->step();
    if (rank.is("reduced-after-step")) all_reduce_each(rank, *model, ReduceOp::average);
    rank.observe_parameters(Phase::post_step, *model);
  });
  if (ddp) rank.group().barrier();  // rank 0 saves the checkpoint, the others wait for it
}

Expectation expect_skip_missing(const Cell& cell) {
  // The smaller buffer of rank 0 receives more than it holds, and Gloo ends the process.
  if (is_set(cell, "differs", "other-sizes")) {
    // No claim is made of the collectives here.
    return {.raises = expect_sizes_differ(cell, 1, {}).raises, .symptom = SymptomKind::mismatched};
  }
  const std::string why = "another gradient, or one of the next step, is in the mean";
  Expectation expectation = pinned(
      expect_ranks_differ(),
      {{.claim = kGradientsAgree, .steps = {1}, .tensors = {"left.*", "right.*"}, .why = why},
       {.claim = kGradientsEqual, .steps = {1}, .tensors = {"left.*", "right.*"}, .why = why}});
  if (is_set(cell, "differs", "same-shapes")) {
    expectation.pins.back().attribution = GradientAttribution::mixture;
    return expectation;
  }
  // Rank 0 calls more all-reduces than the others, who stand in the barrier when theirs are done.
  expectation.breaks.push_back(ranks_finish());
  expectation.symptom = SymptomKind::mismatched;
  return expectation;
}

/// In every k-th step the mean is taken, of the gradients of replicas that are apart by then.
Expectation expect_reduced_every_kth_step(const Cell& cell) {
  const std::int64_t k = std::stoll(axis_value(cell, "k"));
  Expectation expectation = expect_never_reduced(cell);
  expectation.pins.front().last_step = cell.steps % k == 0 ? cell.steps - 1 : cell.steps;
  return expectation;
}

/// The bias is each rank's own, and makes the replicas differ.
Expectation expect_bias_never_reduced(const Cell& cell) {
  Expectation expectation = expect_never_reduced(cell);
  for (Pin& pin : expectation.pins) pin.tensors = {"bias"};
  return expectation;
}

/// All ranks begin with the same buffers.
Expectation expect_buffers_left_behind(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  return pinned({.breaks = {kBuffersAgree}, .symptom = SymptomKind::ranks_differ},
                {{.claim = kBuffersAgree,
                  .steps = {2},
                  .last_step = cell.steps,
                  .tensors = {"norm.running_mean", "norm.running_var"},
                  .groups = each_alone(cell)}});
}

/// All ranks agree, and take other parts of the ranks' gradients than they should.
Expectation expect_weighted_otherwise(const Cell& cell, const std::string& why) {
  return pinned(expect_agree_but_wrong(), {{.claim = kGradientsEqual,
                                            .steps = {1},
                                            .last_step = cell.steps,
                                            .cosine = kOtherDirection,
                                            .groups = each_alone(cell),
                                            .why = why}});
}

Expectation expect_fault(const Cell& cell) {
  const std::string& variant = cell.variant;
  if (variant == "bypass-armed-every-kth-step") return expect_reduced_every_kth_step(cell);
  if (cell.role == Role::buggy || variant == "reduced-after-step") {
    return expect_never_reduced(cell);
  }
  if (variant == "only-matrices-reduced") return expect_bias_never_reduced(cell);
  if (variant == "buffers-left-behind") return expect_buffers_left_behind(cell);
  if (variant == "skip-missing") return expect_skip_missing(cell);
  if (variant == "clipped-before") {
    return expect_weighted_otherwise(cell, "each rank's gradients shrink by their own norm");
  }
  if (variant == "uneven-shards-batch-mean") {
    return expect_weighted_otherwise(
        cell,
        "a rank counts as much as any: uneven-shards-rank-means shows that nothing else is "
        "wrong");
  }
  // AdamW divides by the size of the gradients: a factor in them does not reach the weights.
  const bool parameters_move = !is_set(cell, "optimizer", "adamw");
  const double ranks = cell.world_size;
  return expect_multiple(cell, variant == "sum-not-averaged" ? ranks : 1 / ranks, parameters_move);
}

Expectation expect(const Cell& cell) {
  const bool is_adamw = is_set(cell, "optimizer", "adamw");
  if (cell.steps == 1 && is_adamw) {
    return expect_not_applicable(
        "AdamW's first step is the sign of the gradients, whose differences need not reach the "
        "weights: give 2 steps or more");
  }
  Expectation expectation = is_faulty(cell) ? expect_fault(cell) : Expectation{};
  const bool is_published = cell.variant == "bypass" || cell.variant == "all-reduce-each";
  if (is_published && cell.world_size == 2 && !is_adamw && cell.steps >= 5 && cell.seed == 0) {
    expectation.meets = {"opentslm-49-gradients", "opentslm-49-drift"};
  }
  return expectation;
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {"bypass", Role::buggy, "the loss on ddp.module, as the trainer had it"},
      {"bypass-after-no-grad-forward", Role::buggy,
       "a forward of the wrapper without grad comes first: it does not arm the hooks"},
      {"bypass-armed-every-kth-step", Role::buggy,
       "a forward of the wrapper with grad comes first in every k-th step: only those synchronise"},
      {"bypass-after-armed-forward", Role::latent,
       "a forward of the wrapper with grad comes first in every step and arms the hooks"},
      {"all-reduce-each", Role::fixed,
       "the pull request: one averaging all-reduce per gradient after backward"},
      {"all-reduce-flat", Role::fixed, "one averaging all-reduce of all gradients in one buffer"},
      {.name = "all-reduce-zero-filled",
       .role = Role::fixed,
       .summary = "the review: gradients that a rank lacks are zeros, so all ranks reduce the same",
       .reference = "reference-with-branches"},
      {"through-wrapper", Role::fixed, "the loss on the wrapper: the reducer does its work"},
      {.name = "through-wrapper-with-buffers",
       .role = Role::fixed,
       .summary = "the same with a BatchNorm: the wrapper broadcasts its buffers too",
       .reference = "reference-with-buffers",
       .claims = {kBuffersAgree}},
      {.name = "clipped-after",
       .role = Role::fixed,
       .summary = "all-reduce, then clip: all ranks clip by the norm of the mean",
       .reference = "reference-clipped"},
      {.name = "uneven-shards-rank-means",
       .role = Role::fixed,
       .summary = "ranks have 2, 4, 6 ... rows: what DDP promises is the mean of the ranks' means",
       .reference = "reference-uneven-rank-means"},
      {.name = "uneven-shards-weighted",
       .role = Role::fixed,
       .summary = "each rank's loss is weighted by its rows: the mean over the whole batch",
       .reference = "reference-uneven-batch-mean"},
      {.name = "uneven-shards-batch-mean",
       .role = Role::wrong_fix,
       .summary = "the wrapper alone, taken for the mean over the whole batch",
       .reference = "reference-uneven-batch-mean"},
      {.name = "skip-missing",
       .role = Role::wrong_fix,
       .summary = "the pull request's loop where ranks lack different gradients",
       .limit = 2000ms,
       .reference = "reference-with-branches"},
      {"sum-not-averaged", Role::wrong_fix, "all-reduce with SUM and no division"},
      {"divided-twice", Role::wrong_fix, "all-reduce with AVG and then a division by the ranks"},
      {.name = "clipped-before",
       .role = Role::wrong_fix,
       .summary = "each rank clips its own gradients, then they are averaged",
       .reference = "reference-clipped"},
      {"reduced-after-step", Role::wrong_fix, "the all-reduce comes after the optimizer's step"},
      {"only-matrices-reduced", Role::wrong_fix, "vectors, such as biases, are left out"},
      {.name = "buffers-left-behind",
       .role = Role::wrong_fix,
       .summary = "gradients are reduced by hand; nobody broadcasts the BatchNorm's buffers",
       .reference = "reference-with-buffers",
       .claims = {kBuffersAgree}},
      {"reference", Role::reference, "one process: the mean of all shards' gradients"},
      {"reference-clipped", Role::reference, "the same, clipped by its norm"},
      {"reference-with-branches", Role::reference, "the same; a missing gradient counts as zeros"},
      {"reference-with-buffers", Role::reference, "the same with a BatchNorm"},
      {"reference-uneven-rank-means", Role::reference, "uneven shards: the mean of their means"},
      {"reference-uneven-batch-mean", Role::reference, "uneven shards: the mean over all rows"},
  };
}

std::vector<TableSpec> tables() {
  const std::vector<TableSpec::Group> groups{{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}};
  return {
      {.title = "Gradient on weight[0] after backward, per rank",
       .quantity = Quantity::element,
       .kind = Kind::gradient,
       .phase = Phase::pre_step,
       .tensor = "weight",
       .element = 0,
       .symbol = "g",
       .digits = 5,
       .groups = groups},
      {.title = "Cross-rank weight drift max|W_i - W_j| after each step",
       .quantity = Quantity::drift,
       .kind = Kind::parameter,
       .phase = Phase::post_step,
       .tensor = "weight",
       .symbol = "W",
       .digits = 6,
       .groups = groups},
  };
}

}  // namespace

Scenario loss_on_unwrapped_module() {
  return {
      .id = "loss-on-unwrapped-module",
      .summary =
          "The loss is computed on the module inside the DDP wrapper: gradients are never "
          "synchronised and the replicas drift apart.",
      .provenance = {.project = "SchmiedmayerLab",
                     .link = "pull request #49 (2026-06-27)",
                     .kept = "the toy script: model, seeds, data, learning rate, both tables; the "
                             "review's missing gradients and flat buffer",
                     .left_out = "NCCL and the GPUs: the random numbers are CUDA's, computed on "
                                 "the CPU; the real pipeline is "
                                 "loss-on-unwrapped-module-pipeline"},
      .worlds = worlds_from(2),
      .steps = 5,
      .axes =
          {
              {"optimizer", {"sgd", "adamw"}, "sgd"},
              {"k", {"2", "3"}, "2", {"bypass-armed-every-kth-step"}},
              {"differs",
               {"same-shapes", "other-sizes", "other-counts"},
               "same-shapes",
               {"skip-missing", "all-reduce-zero-filled", "reference-with-branches"}},
          },
      .variants = variants(),
      .claims = replica_claims(),
      .tables = tables(),
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
