// A re-entrant activation checkpoint runs a block again in backward and calls a backward of its own
// on it: DDP's hooks run inside of that, once per run of the block, and the graph that DDP looks at
// does not show the block's parameters. Each block once is right under DDP's defaults and an error
// where unused parameters are looked for; the same block twice is an error while the reducer waits
// for others, and silent when it waits for none. Non-re-entrant checkpoints have an ordinary graph.
// They first came without the offload of the blocks' inputs, and cost the memory that this saved.

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/activation_memory.h"
#include "harness/train/autograd/activation_offload.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/vision_language_model.h"

namespace lockstep {

namespace {

constexpr std::int64_t kText = 3;
constexpr double kDropped = 0.1;

bool is_batch_norm(const Cell& cell) { return is_about(cell, "batch-norm"); }

std::int64_t rows_of(const Cell& cell) { return number_on(cell, "batch"); }

/// How a segment of a model is run.
struct Way {
  enum class Checkpoint { none, reentrant, non_reentrant };
  Checkpoint checkpoint = Checkpoint::none;
  bool offloads = false;  ///< what the checkpoint saves itself: the segment's input
  bool nests = false;     ///< the MLP of a language block is checkpointed once more inside of it
  CheckpointOptions options = {};
};

/// Trainers make the output of a frozen embedding require a gradient
/// (`enable_input_require_grads`), without which a re-entrant checkpoint is not recorded. It is
/// done here, at the first block.
at::Tensor requiring_gradient(const at::Tensor& input) {
  return input.requires_grad() ? input : input.detach().requires_grad_(true);
}

at::Tensor run_segment(const Way& way, const SegmentOfOne& segment, const at::Tensor& input) {
  std::optional<OffloadScope> scope;
  if (way.offloads) scope.emplace();
  switch (way.checkpoint) {
    case Way::Checkpoint::none:
      return segment(input);
    case Way::Checkpoint::reentrant:
      return checkpoint_reentrant(segment, requiring_gradient(input), way.options);
    case Way::Checkpoint::non_reentrant:
      return checkpoint(segment, input, way.options);
  }
  return {};
}

/// As it was on one GPU.
constexpr Way original_way() {
  return {.checkpoint = Way::Checkpoint::reentrant, .offloads = true};
}

/// Where variants part, but for what DDP is told.
Way way_of(Rank& rank) {
  const bool stops_early = !is_set(rank.cell(), "early_stop", "off");
  Way fixed{.checkpoint = Way::Checkpoint::non_reentrant,
            .offloads = true,
            .options = {.early_stop = stops_early}};
  if (rank.is("reentrant") || rank.is("reentrant-find-unused") ||
      rank.is("shared-blocks-reentrant") || rank.is("shared-blocks-static-graph") ||
      rank.is("shared-adapters-reentrant") || rank.is("shared-adapters-static-graph")) {
    return original_way();
  }
  if (rank.is("non-reentrant-offload") || rank.is("shared-blocks-non-reentrant-offload") ||
      rank.is("batch-norm-run-twice") || rank.is("batch-norm-frozen-in-recompute")) {
    return fixed;
  }
  if (rank.is("non-reentrant-nested-offload")) {
    fixed.nests = true;
    return fixed;
  }
  if (rank.is("non-reentrant")) {
    fixed.offloads = false;
    return fixed;
  }
  if (rank.is("no-checkpoint")) return {};
  rank.is(rank.cell().variant);  // references differ in model and data alone
  return {};
}

MicroBatchOptions options_of(const Cell& cell) {
  MicroBatchOptions options = micro_batch_options(cell);
  if (is_about(cell, "find-unused")) options.ddp.find_unused_parameters = true;
  if (is_about(cell, "static-graph")) options.ddp.static_graph = true;
  return options;
}

bool has_adapters(const Cell& cell) {
  return is_about(cell, "shared-adapters") || is_set(cell, "trained", "adapters");
}

/// Many blocks of few operations: what one saves is little beside the inputs of all.
VisionLanguageOptions sizes_of(const Cell& cell) {
  const bool is_shared = is_about(cell, "shared");
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

/// The model that the seed is about, with a dropout before every block, inside of what is
/// checkpointed.
class Model {
 public:
  explicit Model(Rank& rank)
      : generator_(cpu_generator(0)),
        dropout_(is_set(rank.cell(), "dropout") ? kDropped : 0, generator_),
        model_(sizes_of(rank.cell()), cpu_generator(rank.seed(0))) {
    model_.to(dtype_of(rank.cell()));
  }

  Module& module() { return model_; }

  /// To the loss. The masks are those that `seed` gives.
  at::Tensor run(Way way, const at::Tensor& image, const at::Tensor& tokens, std::uint64_t seed) {
    generator_.set_current_seed(seed);
    way.options.generators = {generator_};
    model_.run_blocks_with([this, way](Module& block, const at::Tensor& input) {
      const auto segment = [this, &block](const at::Tensor& x) {
        return block.forward(dropout_.forward(x));
      };
      return run_segment(way, segment, input);
    });
    model_.run_mlps_with([way](Module& mlp, const at::Tensor& input) {
      const auto segment = [&mlp](const at::Tensor& x) { return mlp.forward(x); };
      return way.nests ? run_segment(way, segment, input) : segment(input);
    });
    return model_.forward(image, tokens);
  }

 private:
  at::Generator generator_;
  Dropout dropout_;
  VisionLanguageModel model_;
};

/// A gradient that is there before backward is added to in place, and is no memory that backward
/// takes.
void leave_zero_gradients(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad() && !parameter.grad().defined()) {
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
  }
}

void observe_memory(Rank& rank, std::int64_t bytes) {
  rank.observer().observe(Phase::post_backward, Kind::memory,
                          {"activations", at::scalar_tensor(bytes, at::kLong)});
}

void train_vision_language_model(Rank& rank) {
  const Cell& cell = rank.cell();
  Model model(rank);
  const Way way = way_of(rank);
  std::optional<ActivationMemory> memory;
  std::int64_t most = 0;

  MicroBatchOptions options = options_of(cell);
  options.after_backward = [&](const MicroBatch& batch) {
    most = std::max(most, memory->peak());
    memory.reset();
    if (batch.index + 1 == options.accumulation) observe_memory(rank, std::exchange(most, 0));
  };

  train_in_micro_batches(rank, model.module(), options, [&](const MicroBatch& batch, auto* ddp) {
    const auto [image, tokens] = image_text_of(rank, batch, sizes_of(cell), rows_of(cell), kText);
    const std::uint64_t masks = rank.seed(batch.seed(3'000'000));
    const auto forward = [&](const Way& how) {
      return std::vector<at::Tensor>{model.run(how, image, tokens, masks)};
    };
    if (!ddp) {
      // The gradients come from the model without checkpoints, the memory from the original way.
      if (batch.owner == 0 && batch.index == 0) {
        leave_zero_gradients(model.module());
        const ActivationMemory original;
        next_token_loss(forward(original_way()).front(), tokens).backward();
        observe_memory(rank, original.peak());
        model.module().zero_grad();
      }
      return next_token_loss(forward(way).front(), tokens);
    }
    if (batch.index == 0) leave_zero_gradients(model.module());
    const auto outputs = ddp->forward([&] {
      memory.emplace();  // the buckets that DDP rebuilds before are no activations
      return forward(way);
    });
    return next_token_loss(outputs.front(), tokens);
  });
}

/// While it lives, the statistics of `model` are free to change; then they are as before.
class FrozenStatistics {
 public:
  explicit FrozenStatistics(const Module& model) : buffers_(model.buffers()) {
    for (const at::Tensor& buffer : buffers_) before_.push_back(buffer.clone());
  }
  ~FrozenStatistics() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(before_[i]);
  }
  FrozenStatistics(const FrozenStatistics&) = delete;
  FrozenStatistics& operator=(const FrozenStatistics&) = delete;

 private:
  std::vector<at::Tensor> buffers_, before_;
};

constexpr std::int64_t kWidth = 8;

/// A BatchNorm inside of what is checkpointed.
class NormModel : public Module {
 public:
  explicit NormModel(const at::Generator& generator)
      : below_(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        norm_(register_module("norm", std::make_shared<BatchNorm1d>(kWidth))),
        above_(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return run({}, false, input); }

  at::Tensor run(const Way& way, bool freezes, const at::Tensor& input) {
    const auto runs = std::make_shared<int>(0);
    const auto segment = [this, freezes, runs](const at::Tensor& x) {
      std::optional<FrozenStatistics> frozen;
      if (++*runs > 1 && freezes) frozen.emplace(*this);
      return norm_->forward(x).relu();
    };
    return above_->forward(run_segment(way, segment, below_->forward(input)));
  }

 private:
  std::shared_ptr<Linear> below_;
  std::shared_ptr<BatchNorm1d> norm_;
  std::shared_ptr<Linear> above_;
};

void train_norm_model(Rank& rank) {
  const Cell& cell = rank.cell();
  NormModel model(cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  const Way way = way_of(rank);
  const bool freezes = cell.variant == "batch-norm-frozen-in-recompute";
  const std::vector<std::int64_t> shape{rows_of(cell), kWidth};
  std::optional<FrozenStatistics> of_first_shard;
  train_in_micro_batches(rank, model, options_of(cell), [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = normal_input(rank, batch, 1'000'000, shape);
    const at::Tensor target = normal_input(rank, batch, 2'000'000, shape);
    const bool is_first = batch.index == 0 && (ddp || batch.owner == 0);
    // DDP broadcasts the statistics of rank 0: what other shards do to them is lost.
    if (!ddp && is_first) of_first_shard.reset();
    if (!ddp && batch.index == 0 && batch.owner == 1) of_first_shard.emplace(model);
    const auto forward = [&] {
      if (is_first) rank.observe_buffers(Phase::pre_forward, model);
      return std::vector<at::Tensor>{model.run(way, freezes, input)};
    };
    return ((ddp ? ddp->forward(forward) : forward()).front() - target).pow(2).mean();
  });
}

void train(Rank& rank) {
  if (is_batch_norm(rank.cell())) {
    train_norm_model(rank);
  } else {
    train_vision_language_model(rank);
  }
}

/// Adapters of the block are all that is trained, so the first run of its hooks, the last layer's,
/// ends the reduction, and each rank adds its own gradients of all other layers to the mean.
Expectation expect_shared_adapters_reentrant(const Cell& cell) {
  if (is_set(cell, "find_unused")) return expect_error(ddp_error::kReadyTwice);
  return expect_apart(cell, {"language.blocks.*"});
}

/// With momentum 0.1 a second run adds 0.09 to the 0.1 of the first. The statistics of the first
/// step are what DDP's constructor broadcast.
Expectation expect_statistics_advanced_twice(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  Pin pin{.claim = kBuffersEqual,
          .steps = {2},
          .last_step = cell.steps,
          .tensors = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"},
          .groups = each_alone(cell)};
  if (number_on(cell, "accumulation") == 1) {
    const bool is_coarse = is_set(cell, "dtype", "bfloat16");
    pin.ratio = about(1.9, is_coarse ? 0.03 : 1e-3);
    pin.cosine = is_coarse ? Range{0.999, 1.001} : kSameDirection;
  } else {
    pin.why = "each micro-batch has other statistics";
  }
  return pinned({.breaks = {kBuffersEqual}, .symptom = SymptomKind::agree_but_wrong}, {pin});
}

Expectation expect(const Cell& cell) {
  const MicroBatchOptions options = options_of(cell);
  if (options.ddp.static_graph && options.no_sync && options.accumulation > 1) {
    return expect_not_applicable(kNoSyncWithStaticGraph);
  }
  // The reducer waits for other parameters when the hooks of a block's run again, or took the
  // block's for unused and marked them ready itself.
  if (cell.variant == "reentrant-find-unused" || cell.variant == "shared-blocks-reentrant") {
    return expect_error(ddp_error::kReadyTwice);
  }
  if (has_adapters(cell) && is_set(cell, "dtype", "bfloat16") && cell.role != Role::reference) {
    return expect_not_applicable(
        "in bfloat16 roundings move the gradients of the adapters by up to 80 % of themselves");
  }
  if (cell.variant == "shared-adapters-reentrant") return expect_shared_adapters_reentrant(cell);
  if (cell.variant == "non-reentrant") {
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
  if (cell.variant == "batch-norm-run-twice") return expect_statistics_advanced_twice(cell);
  return {};
}

std::vector<Variant> variants() {
  const std::vector<std::string> reference_without{"no_sync", "bucket_view", "find_unused",
                                                   "static_graph", "bucket"};
  const auto also_without = [&](std::vector<std::string> more) {
    more.insert(more.end(), reference_without.begin(), reference_without.end());
    return more;
  };
  return {
      {.name = "reentrant",
       .role = Role::latent,
       .summary = "each block once, its input offloaded, under DDP's defaults: right, as long as "
                  "nobody looks for unused parameters",
       .claims = {kMemoryBounded},
       .without = {"prior", "find_unused"}},
      {.name = "reentrant-find-unused",
       .role = Role::buggy,
       .summary = "the same with find_unused_parameters, which takes all that is inside of a "
                  "checkpoint for unused",
       .claims = {kMemoryBounded},
       .without = {"prior", "find_unused", "static_graph"}},
      {.name = "shared-blocks-reentrant",
       .role = Role::buggy,
       .summary = "all layers share a block, whose hooks run once per layer: an error while the "
                  "reducer waits for others",
       .reference = "reference-shared-blocks",
       .claims = {kMemoryBounded},
       .without = {"trained", "static_graph"}},
      {.name = "shared-blocks-static-graph",
       .role = Role::latent,
       .summary = "the error text's advice, a static graph: the reducer counts the hooks and waits "
                  "for the last",
       .reference = "reference-shared-blocks",
       .claims = {kMemoryBounded},
       .without = {"trained", "static_graph"}},
      {.name = "shared-blocks-non-reentrant-offload",
       .role = Role::fixed,
       // No claim about memory: the sum of the block's gradients waits for those of all layers.
       .summary = "non-re-entrant checkpoints of the block: autograd adds up before hooks run",
       .reference = "reference-shared-blocks",
       .without = {"trained"}},
      {.name = "shared-adapters-reentrant",
       .role = Role::buggy,
       .summary = "adapters in the shared block are all that is trained: the reducer waits for "
                  "nothing else, and nobody complains",
       .reference = "reference-shared-adapters",
       .claims = {kMemoryBounded},
       .without = {"trained", "static_graph"}},
      {.name = "shared-adapters-static-graph",
       .role = Role::latent,
       .summary = "the same with a static graph",
       .reference = "reference-shared-adapters",
       .claims = {kMemoryBounded},
       .without = {"trained", "static_graph"}},
      {.name = "non-reentrant",
       .role = Role::wrong_fix,
       .summary = "the fix before: non-re-entrant under DDP, and the inputs of all blocks stay",
       .claims = {kMemoryBounded},
       .without = {"prior"}},
      {.name = "non-reentrant-offload",
       .role = Role::fixed,
       .summary = "the pull request: non-re-entrant, and what the checkpoint saves is offloaded",
       .claims = {kMemoryBounded},
       .without = {"prior"}},
      {.name = "non-reentrant-nested-offload",
       .role = Role::fixed,
       .summary = "the same, and the MLP of a block is checkpointed once more inside of it",
       .claims = {kMemoryBounded},
       .without = also_without({"prior"})},
      {.name = "no-checkpoint",
       .role = Role::fixed,
       .summary = "all activations are kept: what it costs, and the same gradients bit for bit",
       .without = also_without({"prior"})},
      {.name = "batch-norm-run-twice",
       .role = Role::buggy,
       .summary = "a BatchNorm in the checkpoint: its statistics advance twice a step",
       .reference = "reference-batch-norm",
       .claims = {kBuffersAgree, kBuffersEqual},
       .without = {"trained", "dropout"}},
      {.name = "batch-norm-frozen-in-recompute",
       .role = Role::fixed,
       .summary = "the statistics stay as they are when the segment is run again",
       .reference = "reference-batch-norm",
       .claims = {kBuffersAgree, kBuffersEqual},
       .without = {"trained", "dropout"}},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: the mean of all shards' gradients without checkpoints, and the "
                  "memory of a shard as it was on one GPU",
       .without = also_without({"prior"})},
      {.name = "reference-shared-blocks",
       .role = Role::reference,
       .summary = "the same with one block for all layers",
       .without = also_without({"trained"})},
      {.name = "reference-shared-adapters",
       .role = Role::reference,
       .summary = "the same with adapters in that block",
       .without = also_without({"trained"})},
      {.name = "reference-batch-norm",
       .role = Role::reference,
       .summary = "the same with a BatchNorm, whose statistics are those of the first shard",
       .without = also_without({"trained", "dropout"})},
  };
}

std::vector<Axis> axes() {
  std::vector<Axis> all{
      {"trained", {"all", "adapters"}, "all"},
      {"dropout", {"off", "on"}, "off"},
      {"batch", {"8", "16"}, "16"},
      {"early_stop",
       {"on", "off"},
       "on",
       {"non-reentrant", "non-reentrant-offload", "non-reentrant-nested-offload",
        "shared-blocks-non-reentrant-offload", "batch-norm-run-twice",
        "batch-norm-frozen-in-recompute"}},
  };
  for (Axis& axis : ddp_axes({})) {
    // Many blocks take their time: values that show nothing more are left out.
    if (axis.name == "accumulation") axis.values = {"1", "2"};
    if (axis.name == "dtype") axis.values = {"float32", "bfloat16"};
    all.push_back(std::move(axis));
  }
  return all;
}

}  // namespace

Scenario reentrant_checkpoint_under_ddp() {
  return {
      .id = "reentrant-checkpoint-under-ddp",
      .summary =
          "Re-entrant checkpoints run DDP's hooks in a backward of their own, which it takes for "
          "a second one or does not see; the first way around it lost the offload.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "re-entrant checkpoints whose inputs are offloaded, the interim fix "
                             "without offload (pull request #3751), non-re-entrant ones with it, "
                             "adapters in a vision-language model; the error text's advice",
                     .left_out = "Qwen3-VL and the GPUs: a small model of the same build, and host "
                                 "memory that is counted apart"},
      .worlds = worlds_from(2),
      .steps = 2,
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
