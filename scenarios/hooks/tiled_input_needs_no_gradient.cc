// With a frozen embedding below a tiled MLP, the input of the custom function requires no gradient.
// So autograd does not record the function, and its parameters never get a gradient. DDP complains
// one step late, or never if its flags allow unused parameters. Re-entrant checkpoints have the
// same fault.

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kVocabulary = 16;
constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

class Model : public Module {
 public:
  Model(const Cell& cell, const at::Generator& generator)
      : embedding_(register_parameter(
            "embedding", at::randn({kVocabulary, kWidth}, generator, at::TensorOptions()))),
        mlp_(register_module("mlp", std::make_shared<SwiGlu>(kWidth, kHidden, generator))) {
    embedding_.requires_grad_(false);
    if (!is_set(cell, "above", "head")) return;
    head_ = register_module("head", std::make_shared<Linear>(kWidth, kWidth, generator));
  }

  /// From tokens [batch, length] to [batch, length, width].
  at::Tensor run(const at::Tensor& tokens, const RunModule& run_mlp) {
    const at::Tensor output = run_mlp(*mlp_, at::embedding(embedding_, tokens));
    return head_ ? head_->forward(output) : output;
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    return run(tokens, [](Module& mlp, const at::Tensor& hidden) { return mlp.forward(hidden); });
  }

 private:
  at::Tensor embedding_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Linear> head_;
};

/// Runs the MLP in tiles or in a checkpoint.
at::Tensor run_mlp(Rank& rank, Module& mlp, const at::Tensor& hidden) {
  rank.at_branch();
  const auto segment = [&mlp](const at::Tensor& input) { return mlp.forward(input); };
  if (rank.has("checkpoint", "reentrant")) return checkpoint_reentrant(segment, hidden);
  if (rank.has("checkpoint", "non-reentrant")) return checkpoint(segment, hidden);
  const bool requires_grad = rank.has("input", "requires-grad");
  return tiled(mlp, requires_grad ? hidden.detach().requires_grad_(true) : hidden,
               tiling_options(rank));
}

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  Training training(rank, model, training_options(rank));
  const RunModule run = [&](Module& mlp, const at::Tensor& hidden) {
    return rank.is_reference() ? mlp.forward(hidden) : run_mlp(rank, mlp, hidden);
  };
  const std::int64_t rows = rank.number("batch"), length = rank.number("length");
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor tokens = at::randint(
        kVocabulary, {rows, length}, cpu_generator(rank.seed(batch.seed(1'000'000))), at::kLong);
    const at::Tensor target = normal_input(rank, batch, 2'000'000, {rows, length, kWidth});
    const auto outputs = training.forward([&] { return std::vector{model.run(tokens, run)}; });
    return (outputs.front() - target).pow(2).mean();
  }});
}

/// Expects the faults of a function that autograd did not record.
Expectation expect_unrecorded(const Cell& cell) {
  if (is_set(cell, "above", "nothing")) {
    return expect_error("element 0 of tensors does not require grad and does not have a grad_fn");
  }
  const bool allows_unused = is_set(cell, "find_unused") || is_set(cell, "static_graph");
  if (!allows_unused && number_on(cell, "accumulation") > 1 && !is_set(cell, "no_sync")) {
    return expect_error(ddp_error::kPriorUnfinished);
  }
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.12));
  if (!allows_unused && cell.steps > 1) {
    return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, {"mlp.*", "head.*"});
  }
  // The function's parameters get no gradient. Unless the reducer may skip unused ones, it waits
  // for them and never reduces the head.
  const std::string why = "there is no gradient, or the one from before";
  Expectation expectation =
      allows_unused
          ? pinned(expect_agree_but_wrong(), {wrong_gradients_of(cell, {"mlp.*"}, why)})
          : pinned(expect_ranks_differ(), {wrong_gradients_of(cell, {"mlp.*", "head.*"}, why)});
  if (!is_set(cell, "prior")) expectation.symptom = SymptomKind::never_trained;
  return expectation;
}

std::vector<Variant> variants() {
  return {
      {"frozen-below", Role::buggy,
       "the embedding is frozen: the function is not recorded, its parameters get no gradient, and "
       "the reducer waits for them",
       "tile_backward=grad-but-last find_unused=off static_graph=off", expect_unrecorded},
      {"find-unused", Role::wrong_fix,
       "find_unused_parameters: nobody complains, and they are never trained",
       "tile_backward=grad-but-last find_unused=on static_graph=off", expect_unrecorded},
      {"static-graph", Role::wrong_fix,
       "a static graph: nobody complains, and they are never trained",
       "tile_backward=grad-but-last find_unused=off static_graph=on", expect_unrecorded},
      {"input-requires-grad", Role::fixed,
       "the input of the function is made to require a gradient",
       "tile_backward=grad-but-last find_unused=off input=requires-grad"},
      {"explicit-inputs", Role::fixed,
       "the parameters are inputs of the function: it is recorded for their sake",
       "tile_backward=explicit-inputs"},
      {"checkpoint-reentrant", Role::buggy, "a re-entrant checkpoint instead of tiles: the same",
       "checkpoint=reentrant tiles=1 find_unused=off static_graph=off", expect_unrecorded},
      {"checkpoint-non-reentrant", Role::fixed, "a non-re-entrant checkpoint records what it runs",
       "checkpoint=non-reentrant tiles=1"},
      {"reference", Role::reference, "one process, no tiles: the mean of all shards' gradients"},
  };
}

}  // namespace

Scenario tiled_input_needs_no_gradient() {
  return {
      .id = "tiled-input-needs-no-gradient",
      .summary =
          "The input of a tiled or checkpointed MLP requires no gradient: autograd does not "
          "record the function, and what is inside is never trained.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "the tiled MLP above a frozen embedding, as adapters leave it",
                     .left_out = "the embedding's own hook that makes its output require a "
                                 "gradient, which trainers of adapters add: it is the fix"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = tiled_axes({{"above", {"head", "nothing"}, "head"}}),
      .variants = variants(),
      .claims = replica_claims(),
      .precondition = refuse_no_sync_with_static_graph,
      .body = train,
  };
}

}  // namespace lockstep
