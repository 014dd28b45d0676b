// An activation checkpoint contains a BatchNorm. Backward runs the segment again, so the statistics
// advance twice a step.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/activation_offload.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;

/// Restores the statistics of `model` on destruction.
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

/// A BatchNorm in a segment, between two layers.
class Model : public Module {
 public:
  explicit Model(const at::Generator& generator)
      : below_(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        norm_(register_module("norm", std::make_shared<BatchNorm1d>(kWidth))),
        above_(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return above_->forward(run_norm(below_->forward(input)));
  }

  /// `forward` with a checkpoint around the norm. `freezes`: a second run keeps the statistics.
  at::Tensor run(const at::Tensor& input, bool freezes, const CheckpointOptions& options) {
    const auto runs = std::make_shared<int>(0);
    const auto segment = [this, freezes, runs](const at::Tensor& x) {
      std::optional<FrozenStatistics> frozen;
      if (++*runs > 1 && freezes) frozen.emplace(*this);
      return run_norm(x);
    };
    const at::Tensor below = below_->forward(input);
    const OffloadScope scope;
    return above_->forward(checkpoint(segment, below, options));
  }

 private:
  at::Tensor run_norm(const at::Tensor& x) { return norm_->forward(x).relu(); }

  std::shared_ptr<Linear> below_;
  std::shared_ptr<BatchNorm1d> norm_;
  std::shared_ptr<Linear> above_;
};

at::Tensor run(Rank& rank, Model& model, const at::Tensor& input) {
  if (rank.is_reference()) return model.forward(input);
  rank.at_branch();
  return model.run(input, rank.has("recompute", "frozen"),
                   {.early_stop = !rank.has("early_stop", "off")});
}

void train(Rank& rank) {
  Model model(cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  Training training(rank, model, training_options(rank));
  const std::vector<std::int64_t> rows{rank.number("batch")};
  std::optional<FrozenStatistics> of_first_shard;
  training.run({.loss = [&](const MicroBatch& batch) {
    const bool is_first = batch.index == 0 && (!rank.is_reference() || batch.owner == 0);
    // DDP broadcasts rank 0's statistics, so changes by other shards are lost.
    if (rank.is_reference() && is_first) of_first_shard.reset();
    if (rank.is_reference() && batch.index == 0 && batch.owner == 1) of_first_shard.emplace(model);
    const Module::Forward forward = [&](const at::Tensor& input) {
      return training
          .forward([&] {
            if (is_first) rank.observe_buffers(Phase::pre_forward, model);
            return std::vector{run(rank, model, input)};
          })
          .front();
    };
    return squared_error(rank, batch, forward, rows, kWidth, kWidth);
  }});
}

/// With momentum 0.1, a second run adds 0.09 to the 0.1 of the first. In step 1 the statistics are
/// right: DDP's constructor broadcast them.
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

std::vector<Variant> variants() {
  const std::vector<Claim> buffers{kBuffersAgree, kBuffersEqual};
  return {
      {"run-twice", Role::buggy,
       "a BatchNorm in the checkpoint: its statistics advance twice a step", "recompute=plain",
       expect_statistics_advanced_twice, "", buffers},
      {"frozen-in-recompute",
       Role::fixed,
       "the statistics stay as they are when the segment is run again",
       "recompute=frozen",
       {},
       "",
       buffers},
      {"reference", Role::reference,
       "one process, no checkpoint: the mean of all shards' gradients, and the statistics of the "
       "first shard"},
  };
}

}  // namespace

Scenario batch_norm_updated_again_by_checkpoint() {
  return {
      .id = "batch-norm-updated-again-by-checkpoint",
      .summary =
          "A BatchNorm inside of an activation checkpoint runs again in backward: its statistics "
          "advance twice a step.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "a non-re-entrant checkpoint whose input is offloaded",
                     .left_out = "the vision-language model: a BatchNorm between two layers"},
      .worlds = worlds_from(2),
      .steps = 2,
      .axes = checkpoint_axes({}, {"run-twice", "frozen-in-recompute"}),
      .variants = variants(),
      .claims = replica_claims(),
      .precondition = refuse_no_sync_with_static_graph,
      .body = train,
  };
}

}  // namespace lockstep
