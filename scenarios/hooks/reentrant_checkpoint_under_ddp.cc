// A re-entrant activation checkpoint runs a block again in backward and calls its own backward on
// it. DDP's hooks run inside that call, once per run of the block, and DDP's graph does not show
// the block's parameters. One run per block is right under DDP's defaults, and an error if DDP
// looks for unused parameters. Two runs of a block are an error while the reducer waits for other
// parameters, and a silent fault when it waits for none. Non-re-entrant checkpoints have an
// ordinary graph. Their first version did not offload the blocks' inputs, and lost the memory that
// offloading had saved.

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/train/loop/checkpointed_model.h"
#include "harness/train/loop/training.h"
#include "harness/train/rank/device_memory.h"

namespace lockstep {

namespace {

constexpr std::int64_t kText = 3;

/// How the training ran on one GPU.
constexpr CheckpointedSegments kOriginalWay{.reentrant = true, .offloads = true};

CheckpointedSegments segments_of(Rank& rank) {
  rank.at_branch();
  return {.reentrant = rank.has("checkpoint", "reentrant"),
          .non_reentrant = rank.has("checkpoint", "non-reentrant"),
          .offloads = rank.has("offload"),
          .nests = rank.has("nested"),
          .options = {.early_stop = !rank.has("early_stop", "off")}};
}

bool has_adapters(const Cell& cell) { return is_set(cell, "trained", "adapters"); }

/// Many small blocks: running one needs little memory compared with the inputs of all.
VisionLanguageOptions sizes_of(const Cell& cell) {
  const bool is_shared = is_set(cell, "blocks", "shared");
  VisionLanguageOptions sizes{.height = 4,
                              .width = 4,
                              .vision_width = 8,
                              .vision_heads = 1,
                              .vision_hidden = 8,
                              .vision_blocks = 1,
                              .vocabulary = 16,
                              .max_text = kText,
                              .language_heads = 1,
                              .language_hidden = 4,
                              .language_blocks = is_shared ? 4 : 28,
                              .shared_blocks = is_shared};
  if (has_adapters(cell)) sizes.lora = LoraOptions{.rank = 1, .alpha = 1, .draws_b = true};
  return sizes;
}

void observe_memory(Rank& rank, std::int64_t bytes) {
  rank.observer().observe(Phase::post_backward, Kind::memory,
                          {"activations", at::scalar_tensor(bytes, at::kLong)});
}

/// Peak memory of the original way in bytes, observed by the reference.
std::int64_t original_memory(CheckpointedModel& model, const ImageText& batch, std::uint64_t masks,
                             at::Device device) {
  model.fill_missing_gradients();
  const DeviceMemory memory(device);
  next_token_loss(model.run(kOriginalWay, batch.image, batch.tokens, masks), batch.tokens)
      .backward();
  const std::int64_t peak = memory.peak();
  model.module().zero_grad();
  return peak;
}

void train(Rank& rank) {
  CheckpointedModel model(sizes_of(rank.cell()), rank.has("dropout") ? 0.1 : 0,
                          cpu_generator(rank.seed(0)));
  model.module().to(dtype_of(rank.cell()));
  Training training(rank, model.module(), training_options(rank));
  std::optional<DeviceMemory> memory;
  std::int64_t most = 0;
  const auto loss_of = [&](const MicroBatch& batch) {
    const ImageText drawn =
        image_text_of(rank, batch, sizes_of(rank.cell()), rank.number("batch"), kText);
    const std::uint64_t masks = rank.seed(batch.seed(3'000'000));
    const bool is_first = batch.index == 0;
    if (rank.is_reference() && is_first && batch.owner == 0) {
      observe_memory(rank, original_memory(model, drawn, masks, rank.device()));
    }
    if (!rank.is_reference() && is_first) model.fill_missing_gradients();
    const at::Tensor logits = training.forward([&] {
      // Skips the buckets that DDP rebuilds before this: they are no activations.
      if (!rank.is_reference()) memory.emplace(rank.device());
      const auto segments = rank.is_reference() ? CheckpointedSegments() : segments_of(rank);
      return model.run(segments, drawn.image, drawn.tokens, masks);
    });
    return next_token_loss(logits, drawn.tokens);
  };
  const auto backward = [&](const at::Tensor& loss, const MicroBatch& batch) {
    loss.backward();
    most = std::max(most, memory->peak());
    memory.reset();
    const bool is_last = batch.index + 1 == training.options().accumulation;
    if (is_last) observe_memory(rank, std::exchange(most, 0));
  };
  training.run({.loss = loss_of, .backward = backward});
}

/// Only the shared block's adapters are trained. The first run of their hooks, for the last layer,
/// ends the reduction. Each rank then adds its own gradients of all other layers to the mean.
Expectation expect_shared_adapters(const Cell& cell) {
  if (is_set(cell, "find_unused")) return expect_error(ddp_error::kReadyTwice);
  return expect_apart(cell, {"language.blocks.*"});
}

Expectation expect_inputs_kept(const Cell& cell) {
  if (is_set(cell, "dtype", "bfloat16")) {
    return expect_not_applicable(
        "in bfloat16 the inputs of all blocks are less than what running one again needs");
  }
  return pinned({.breaks = {kMemoryBounded}, .symptom = SymptomKind::exceeds_memory},
                {{.claim = kMemoryBounded,
                  .steps = {1},
                  .last_step = cell.steps,
                  .tensors = {"activations"},
                  .ratio = Range{2, 6},
                  .why = "the inputs of six blocks stay, beside what running one again needs"}});
}

std::string precondition(const Cell& cell) {
  if (std::string reason = refuse_no_sync_with_static_graph(cell); !reason.empty()) return reason;
  const bool raises = is_set(cell, "raises", "always");
  if (raises || cell.role == Role::reference || !has_adapters(cell)) return "";
  if (!is_set(cell, "dtype", "bfloat16")) return "";
  return "in bfloat16 roundings move the gradients of the adapters by up to 80 % of themselves";
}

/// `variant`, of which it is claimed that it needs no more memory than one GPU did.
Variant bounded(Variant variant) {
  variant.claims = {kMemoryBounded};
  return variant;
}

// Either a block's hooks run again while the reducer waits for other parameters, or the reducer
// took the block for unused and had marked it ready itself.
ExpectationOf ready_twice() { return always(expect_error(ddp_error::kReadyTwice)); }

std::vector<Variant> variants() {
  return {
      bounded(latent("reentrant",
                     "right under DDP's defaults: each block runs once, with its input offloaded",
                     "checkpoint=reentrant offload=on prior=off find_unused=off")),
      bounded(buggy(
          "reentrant-find-unused",
          "find_unused_parameters takes all parameters inside the checkpoints for unused",
          "checkpoint=reentrant offload=on raises=always prior=off find_unused=on static_graph=off",
          ready_twice())),
      bounded(
          buggy("shared-blocks-reentrant",
                "layers share a block, whose hooks run once per layer: an error, or a silent fault",
                "checkpoint=reentrant offload=on blocks=shared trained=all static_graph=off",
                ready_twice())
              .compared_with("reference-shared-blocks")),
      bounded(latent("shared-blocks-static-graph",
                     "a static graph, as the error advises: the reducer waits for the last hook",
                     "checkpoint=reentrant offload=on blocks=shared trained=all static_graph=on")
                  .compared_with("reference-shared-blocks")),
      // No claim about memory: the block's gradient sum is kept until all layers have contributed.
      fixed("shared-blocks-non-reentrant-offload",
            "non-re-entrant checkpoints of the shared block: gradients are summed before hooks",
            "checkpoint=non-reentrant offload=on blocks=shared trained=all")
          .compared_with("reference-shared-blocks"),
      bounded(
          buggy("shared-adapters-reentrant",
                "only the shared block's adapters are trained: wrong gradients without an error",
                "checkpoint=reentrant offload=on blocks=shared trained=adapters static_graph=off",
                expect_shared_adapters)
              .compared_with("reference-shared-adapters")),
      bounded(
          latent("shared-adapters-static-graph",
                 "only the shared block's adapters are trained, with a static graph",
                 "checkpoint=reentrant offload=on blocks=shared trained=adapters static_graph=on")
              .compared_with("reference-shared-adapters")),
      bounded(wrong_fix(
          "non-reentrant",
          "the earlier workaround, non-re-entrant: the inputs of all blocks stay in memory",
          "checkpoint=non-reentrant prior=off", expect_inputs_kept)),
      bounded(fixed("non-reentrant-offload",
                    "the pull request: non-re-entrant, with its saved tensors offloaded",
                    "checkpoint=non-reentrant offload=on prior=off")),
      bounded(
          fixed("non-reentrant-nested-offload",
                "non-re-entrant with offload, and the MLP of each block checkpointed again inside",
                "checkpoint=non-reentrant offload=on nested=on prior=off no_sync=off "
                "bucket_view=off find_unused=off static_graph=off bucket=standard")),
      fixed("no-checkpoint", "no checkpoints: the same gradients bit for bit, for more memory",
            "checkpoint=none prior=off no_sync=off bucket_view=off find_unused=off "
            "static_graph=off bucket=standard"),
      reference("reference",
                "one process without checkpoints; memory as that of one shard on one GPU",
                "prior=off"),
      reference("reference-shared-blocks", "one process, with one block for all layers",
                "blocks=shared trained=all"),
      reference("reference-shared-adapters",
                "one process, with adapters in one block for all layers",
                "blocks=shared trained=adapters"),
  };
}

}  // namespace

Scenario reentrant_checkpoint_under_ddp() {
  return {
      .summary =
          "Re-entrant checkpoints run DDP's hooks in a nested backward: DDP counts it as a second "
          "backward, or misses it. The first workaround lost the offload.",
      .origin =
          {"unsloth", "pull request #4240 (2026-03-12)",
           "offloaded re-entrant checkpoints, the interim fix (pull request #3751), adapters in a "
           "vision-language model, the error text's advice",
           "Qwen3-VL and GPUs: a small model; offloaded memory is counted separately"},
      .variants = variants(),
      .steps = 2,
      .axes =
          checkpoint_axes({{"trained", {"all", "adapters"}, "all"}, switch_axis("dropout")},
                          {"non-reentrant", "non-reentrant-offload", "non-reentrant-nested-offload",
                           "shared-blocks-non-reentrant-offload"}),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
