// A trainer adds adapters to a model that DistributedDataParallel has already wrapped. The wrapper
// broadcasts rank 0's weights and registers gradients once, at its construction. So each rank keeps
// the adapters that it has drawn, and trains them alone. All-reducing their gradients makes
// gradients agree, but not weights. The first loss shows nothing, because adapters start with a
// product of zeros.

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/lora.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kRows = 4;
constexpr LoraOptions kAdapters{.rank = 2, .alpha = 4};

/// A trained layer below a frozen one, which can be adapted.
class Adaptable : public Module {
 public:
  explicit Adaptable(const at::Generator& generator)
      : body_(register_module("body", std::make_shared<Linear>(kWidth, kWidth, generator))),
        head_(register_module("head", std::make_shared<Linear>(kWidth, kWidth, generator))) {
    head_->freeze();
  }

  at::Tensor forward(const at::Tensor& input) override { return (*head_)(body_->forward(input)); }

  /// Returns the new parameters.
  std::vector<at::Tensor> add_adapters(const at::Generator& generator) {
    head_ = replace_module("head", std::make_shared<LoraLinear>(head_, kAdapters, generator));
    std::vector<at::Tensor> added = head_->parameters();
    std::erase_if(added, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
    return added;
  }

 private:
  std::shared_ptr<Linear> body_;
  std::shared_ptr<Module> head_;
};

/// Adapters of this rank's own drawing, as trainers that seed by rank have them. Rank 0's are those
/// of the reference.
std::vector<at::Tensor> add_own_adapters(const Rank& rank, Adaptable& model) {
  const auto owner = static_cast<std::uint64_t>(rank.rank());
  return model.add_adapters(cpu_generator(rank.seed(1000 + owner)));
}

/// The same on the rank's device, below an existing wrapper.
std::vector<at::Tensor> add_after_wrapper(Rank& rank, Training& training, Adaptable& model) {
  std::vector<at::Tensor> added = add_own_adapters(rank, model);
  model.to(rank.device());
  name_parameters(model);
  training.renew_optimizer();
  if (rank.has("weights", "broadcast")) broadcast_each(rank.group(), added);
  return added;
}

void train(Rank& rank) {
  Adaptable model(cpu_generator(rank.seed(0)));
  const bool is_wrapped_first = rank.has("adapters", "after-wrapper");
  if (!is_wrapped_first) add_own_adapters(rank, model);
  Training training(rank, model, training_options(rank));
  rank.at_branch();
  std::vector<at::Tensor> added;
  if (is_wrapped_first) added = add_after_wrapper(rank, training, model);
  training.run({
      .before =
          [&](std::int64_t step) {
            if (step == 1) rank.observe_parameters(Phase::pre_forward, model);
          },
      .loss =
          [&](const MicroBatch& batch) {
            const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
            return squared_error(rank, batch, forward, {kRows}, kWidth, kWidth);
          },
      .reduce =
          [&](std::int64_t) {
            if (rank.has("gradients", "averaged")) average_each(rank.group(), added);
          },
  });
}

/// The mean of gradients of different adapters. That of `lora_a` is zero at first, and the body's
/// does not go through a product of zeros.
Expectation expect_weights_apart(const Cell& cell) {
  return expect_starts_apart(cell, {"head.lora_a.weight"}, {"head.lora_b.weight"});
}

/// The wrapper reduces the body's gradients, and they go through the adapters from step 2 on.
Expectation expect_adapters_never_reduced(const Cell& cell) {
  return expect_apart(cell, {"head.lora_*.weight"});
}

Expectation expect_adapters_apart(const Cell& cell) {
  Expectation expectation = expect_adapters_never_reduced(cell);
  expectation.breaks.push_back(kInitialParametersAgree);
  expectation.pins.push_back(expect_weights_apart(cell).pins.front());  // of the start
  return expectation;
}

}  // namespace

Scenario adapters_added_after_wrapper() {
  return {
      .summary =
          "Adapters are added to a model that DDP has wrapped: each rank keeps its own initial "
          "weights and gradients; all-reduced gradients leave the weights apart.",
      .origin = {"SchmiedmayerLab, transformers, FastVideo",
                 "the trainer of pull request #49, stages 3 to 5; huggingface/transformers#48792 "
                 "(2026-09-15) and #48873; hao-ai-lab/FastVideo#1666",
                 "adapters below the wrapper, drawn by each rank, neither broadcast nor reduced; "
                 "the pull request's all-reduce per gradient; FastVideo's broadcast and averages",
                 "fully_shard of the last two, which neither broadcasts nor reduces what it did "
                 "not shard, either: here DDP; the trainer's loss on the unwrapped module"},
      .variants =
          {buggy("adapters-after-wrap",
                 "adapters are drawn by each rank after the wrapper, which does not know them",
                 "adapters=after-wrapper weights=own gradients=own", expect_adapters_apart),
           wrong_fix("all-reduce-each",
                     "their gradients are averaged by hand: gradients agree, weights stay apart",
                     "adapters=after-wrapper weights=own gradients=averaged", expect_weights_apart),
           wrong_fix("broadcast-alone",
                     "their initial weights are rank 0's, but nothing reduces their gradients",
                     "adapters=after-wrapper weights=broadcast gradients=own",
                     expect_adapters_never_reduced),
           fixed("wrap-after-adapters", "adapters first: the wrapper broadcasts and reduces them",
                 "adapters=before-wrapper"),
           fixed("broadcast-new-parameters",
                 "rank 0's new weights for all, and their gradients averaged in each step",
                 "adapters=after-wrapper weights=broadcast gradients=averaged"),
           reference("reference",
                     "one process with rank 0's adapters: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = claims_before({kInitialParametersAgree}, replica_claims()),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
