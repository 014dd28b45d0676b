// With a frozen embedding below a tiled MLP, the input of the custom function requires no gradient.
// So autograd does not record the function, and its parameters never get a gradient. DDP complains
// one step late, or never if its flags allow unused parameters. Re-entrant checkpoints have the
// same fault.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/mlp_above_embedding.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = MlpAboveEmbedding::kWidth;

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
  MlpAboveEmbedding model(cpu_generator(rank.seed(0)),
                          /*has_head=*/is_set(rank.cell(), "above", "head"));
  model.to(dtype_of(rank.cell()));
  Training training(rank, model, training_options(rank));
  const RunModule run = [&](Module& mlp, const at::Tensor& hidden) {
    return rank.is_reference() ? mlp.forward(hidden) : run_mlp(rank, mlp, hidden);
  };
  const std::int64_t rows = rank.number("batch"), length = rank.number("length");
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor tokens =
        at::randint(MlpAboveEmbedding::kVocabulary, {rows, length},
                    cpu_generator(rank.seed(batch.seed(1'000'000))), at::kLong)
            .to(rank.device());
    const at::Tensor target = normal_input(rank, batch, 2'000'000, {rows, length, kWidth});
    const at::Tensor output = training.forward([&] { return model.run(tokens, run); });
    return (output - target).pow(2).mean();
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

}  // namespace

Scenario tiled_input_needs_no_gradient() {
  return {
      .summary =
          "The input of a tiled or checkpointed MLP requires no gradient: autograd does not record "
          "the function, so its parameters are never trained.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the tiled MLP above a frozen embedding, as adapters leave it",
                 "the hook that adapter trainers add to the embedding: it is the fix"},
      .variants =
          {buggy("frozen-below",
                 "the embedding is frozen: the function is not recorded, and the reducer waits",
                 "tile_backward=grad-but-last find_unused=off static_graph=off", expect_unrecorded),
           wrong_fix("find-unused",
                     "find_unused_parameters: the parameters are never trained, without an error",
                     "tile_backward=grad-but-last find_unused=on static_graph=off",
                     expect_unrecorded),
           wrong_fix(
               "static-graph", "a static graph: the parameters are never trained, without an error",
               "tile_backward=grad-but-last find_unused=off static_graph=on", expect_unrecorded),
           fixed("input-requires-grad", "the input of the function is made to require a gradient",
                 "tile_backward=grad-but-last find_unused=off input=requires-grad"),
           fixed("explicit-inputs",
                 "the parameters are inputs of the function, so autograd records it",
                 "tile_backward=explicit-inputs"),
           buggy("checkpoint-reentrant",
                 "a re-entrant checkpoint instead of tiles is not recorded either",
                 "checkpoint=reentrant tiles=1 find_unused=off static_graph=off",
                 expect_unrecorded),
           fixed("checkpoint-non-reentrant",
                 "a non-re-entrant checkpoint records the operations inside",
                 "checkpoint=non-reentrant tiles=1"),
           reference("reference", "one process, no tiles: the mean of all shards' gradients")},
      .axes = tiled_axes({{"above", {"head", "nothing"}, "head"}}),
      .claims = replica_claims(),
      .precondition = refuse_no_sync_with_static_graph,
      .body = train,
  };
}

}  // namespace lockstep
