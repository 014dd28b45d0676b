// A frozen embedding below a tiled MLP: the input of the custom function requires no gradient, so
// autograd does not record it, and no parameter inside ever gets one. DDP complains one step late,
// or, with flags that allow unused parameters, never. A re-entrant checkpoint is such a function
// too.

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <utility>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kVocabulary = 16;
constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

/// How the MLP is run: what the variants differ in.
using RunMlp = std::function<at::Tensor(Module& mlp, const at::Tensor& hidden)>;

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

  /// Tokens [batch, length] to [batch, length, width].
  at::Tensor run(const at::Tensor& tokens, const RunMlp& run_mlp) {
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

RunMlp run_mlp_of(Rank& rank) {
  const auto forward = [](Module& mlp) {
    return [&mlp](const at::Tensor& hidden) { return mlp.forward(hidden); };
  };
  if (rank.is("checkpoint-reentrant")) {
    return [=](Module& mlp, const at::Tensor& hidden) {
      return checkpoint_reentrant(forward(mlp), hidden);
    };
  }
  if (rank.is("checkpoint-non-reentrant")) {
    return [=](Module& mlp, const at::Tensor& hidden) { return checkpoint(forward(mlp), hidden); };
  }
  TilingOptions tiling{.backward = TileBackward::grad_but_last};
  if (has_axis(rank.cell(), "tiles")) tiling.tiles = number_on(rank.cell(), "tiles");
  if (rank.is("input-requires-grad")) {
    return [=](Module& mlp, const at::Tensor& hidden) {
      return tiled(mlp, hidden.detach().requires_grad_(true), tiling);
    };
  }
  if (rank.is("explicit-inputs")) tiling.backward = TileBackward::explicit_inputs;
  return [=](Module& mlp, const at::Tensor& hidden) { return tiled(mlp, hidden, tiling); };
}

MicroBatchOptions options_of(Rank& rank) {
  MicroBatchOptions options = micro_batch_options(rank.cell());
  if (rank.is("frozen-below")) return options;
  if (rank.is("find-unused")) options.ddp.find_unused_parameters = true;
  if (rank.is("static-graph")) options.ddp.static_graph = true;
  return options;
}

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const RunMlp run_mlp = run_mlp_of(rank);
  const bool is_reference = rank.is("reference");
  const std::int64_t rows = number_on(rank.cell(), "batch");
  const std::int64_t length = number_on(rank.cell(), "length");
  train_in_micro_batches(rank, model, options_of(rank), [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor tokens = at::randint(
        kVocabulary, {rows, length}, cpu_generator(rank.seed(batch.seed(1'000'000))), at::kLong);
    const at::Tensor target = normal_input(rank, batch, 2'000'000, {rows, length, kWidth});
    const auto forward = [&] {
      return std::vector<at::Tensor>{is_reference ? model.forward(tokens)
                                                  : model.run(tokens, run_mlp)};
    };
    return ((ddp ? ddp->forward(forward) : forward()).front() - target).pow(2).mean();
  });
}

/// What becomes of a function that autograd did not record.
Expectation expect_unrecorded(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  if (is_set(cell, "above", "nothing")) {
    return expect_error("element 0 of tensors does not require grad and does not have a grad_fn");
  }
  const bool allows_unused = cell.variant == "find-unused" || cell.variant == "static-graph";
  if (!allows_unused && options.accumulation > 1 && !options.no_sync) {
    return expect_error(ddp_error::kPriorUnfinished);
  }
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.12));
  if (!allows_unused && cell.steps > 1) {
    return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, {"mlp.*", "head.*"});
  }
  // What is inside of the function gets nothing, and the head waits for it where it has to.
  const std::string why = "there is no gradient, or the one from before";
  Expectation expectation =
      allows_unused
          ? pinned(expect_agree_but_wrong(), {wrong_gradients_of(cell, {"mlp.*"}, why)})
          : pinned(expect_ranks_differ(), {wrong_gradients_of(cell, {"mlp.*", "head.*"}, why)});
  if (!options.prior) expectation.symptom = SymptomKind::never_trained;
  return expectation;
}

Expectation expect(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  const bool is_static = options.ddp.static_graph || cell.variant == "static-graph";
  if (is_static && options.no_sync && options.accumulation > 1) {
    return expect_not_applicable(kNoSyncWithStaticGraph);
  }
  if (!is_faulty(cell)) return {};
  return expect_unrecorded(cell);
}

std::vector<Variant> variants() {
  return {
      {.name = "frozen-below",
       .role = Role::buggy,
       .summary = "the embedding is frozen: the function is not recorded, its parameters get no "
                  "gradient, and the reducer waits for them",
       .without = {"find_unused", "static_graph"}},
      {.name = "find-unused",
       .role = Role::wrong_fix,
       .summary = "find_unused_parameters: nobody complains, and they are never trained",
       .without = {"find_unused", "static_graph"}},
      {.name = "static-graph",
       .role = Role::wrong_fix,
       .summary = "a static graph: nobody complains, and they are never trained",
       .without = {"find_unused", "static_graph"}},
      {.name = "input-requires-grad",
       .role = Role::fixed,
       .summary = "the input of the function is made to require a gradient",
       .without = {"find_unused"}},
      {.name = "explicit-inputs",
       .role = Role::fixed,
       .summary = "the parameters are inputs of the function: it is recorded for their sake"},
      {.name = "checkpoint-reentrant",
       .role = Role::buggy,
       .summary = "a re-entrant checkpoint instead of tiles: the same",
       .without = {"tiles", "find_unused", "static_graph"}},
      {.name = "checkpoint-non-reentrant",
       .role = Role::fixed,
       .summary = "a non-re-entrant checkpoint records what it runs",
       .without = {"tiles"}},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, no tiles: the mean of all shards' gradients",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
  };
}

std::vector<Axis> axes() {
  return ddp_axes({
      {"tiles", {"1", "2", "3", "4", "8"}, "4"},
      {"length", {"8", "11"}, "8"},
      {"batch", {"1", "2"}, "2"},
      {"above", {"head", "nothing"}, "head"},
  });
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
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
