// A language model's head often is its embedding, transposed. In a pipeline the two are on the
// first and on the last stage, so the weight has a copy on each. One gets the gradient of its use
// as a table, the other that of its use as a head. Unless the two are summed, the copies train
// apart: no single model has such weights, and a checkpoint holds one of them.

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/sharded/pipeline.h"

namespace lockstep {

namespace {

constexpr std::int64_t kTokens = 6;  // of a micro-batch
constexpr std::int64_t kVocabulary = 5;
constexpr std::int64_t kWidth = 4;

class Embedding : public Module {
 public:
  explicit Embedding(const at::Generator& generator)
      : weight_(register_parameter("weight",
                                   at::randn({kVocabulary, kWidth}, generator, at::kFloat))) {}

  at::Tensor forward(const at::Tensor& tokens) override { return at::embedding(weight_, tokens); }
  at::Tensor logits(const at::Tensor& hidden) const { return hidden.matmul(weight_.t()); }

 private:
  at::Tensor weight_;
};

/// A layer for each stage. The first one also has the embedding, the last one the head.
struct LanguageModel : Module {
  /// `embedding_generator` draws the rank's copy.
  LanguageModel(int stages, const at::Generator& generator,
                const at::Generator& embedding_generator)
      : embedding(register_module("embedding", std::make_shared<Embedding>(embedding_generator))) {
    for (int stage = 0; stage < stages; ++stage) {
      layers.push_back(register_module(fmt::format("layer{}", stage),
                                       std::make_shared<Linear>(kWidth, kWidth, generator)));
    }
  }

  /// From tokens, or from what the stage before returns.
  at::Tensor run_stage(std::size_t stage, const at::Tensor& input) {
    const at::Tensor hidden = stage == 0 ? (*embedding)(input) : input;
    const at::Tensor output = (*layers[stage])(hidden).tanh();
    return stage + 1 == layers.size() ? embedding->logits(output) : output;
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    at::Tensor output = tokens;
    for (std::size_t stage = 0; stage < layers.size(); ++stage) output = run_stage(stage, output);
    return output;
  }

  std::shared_ptr<Embedding> embedding;
  std::vector<std::shared_ptr<Linear>> layers;
};

/// Each token but the last predicts the next one.
at::Tensor text_of(Rank& rank, std::int64_t step, std::int64_t index) {
  const MicroBatch of_all{/*owner=*/0, step, index};
  const at::Generator drawn = cpu_generator(rank.seed(of_all.seed(1'000'000)));
  return at::randint(kVocabulary, {kTokens + 1}, drawn, at::kLong).to(rank.device());
}

/// Weights of 1, which a perturbed reference perturbs: tokens cannot be.
at::Tensor loss_of(Rank& rank, const at::Tensor& logits, const at::Tensor& text) {
  const at::Tensor next = text.narrow(0, 1, kTokens).unsqueeze(1);
  const at::Tensor losses = -logits.log_softmax(-1).gather(-1, next).squeeze(1);
  return (losses * rank.input(at::ones({kTokens}))).mean() / rank.number("accumulation");
}

void train_in_one_process(Rank& rank, LanguageModel& model) {
  Training(rank, model).run({.reference = [&](std::int64_t step) {
    for (std::int64_t index = 0; index < rank.number("accumulation"); ++index) {
      const at::Tensor text = text_of(rank, step, index);
      loss_of(rank, model(text.narrow(0, 0, kTokens)), text).backward();
    }
  }});
}

StageHooks stage_of(Rank& rank, LanguageModel& model) {
  const auto stage = static_cast<std::size_t>(rank.rank());
  return {
      .input =
          [&](std::int64_t index) {
            return text_of(rank, rank.step(), index).narrow(0, 0, kTokens);
          },
      .forward = [&model, stage](const at::Tensor& input) { return model.run_stage(stage, input); },
      .loss =
          [&](const at::Tensor& logits, std::int64_t index) {
            return loss_of(rank, logits, text_of(rank, rank.step(), index));
          },
      .shape =
          [](std::int64_t) {
            return std::vector{kTokens, kWidth};
          },
      .options = at::TensorOptions(rank.device()).dtype(at::kFloat)};
}

/// Each stage's process draws its copy, or all draw the same.
std::uint64_t embedding_seed(const Rank& rank) {
  const bool is_own = rank.has("weights", "own") || rank.has("weights", "broadcast");
  return rank.seed(1000 + static_cast<std::uint64_t>(is_own ? rank.rank() : 0));
}

/// Stages between the two have a copy that they do not use, and gradients of zeros.
void reduce_copies(Rank& rank, const std::vector<at::Tensor>& copies) {
  fill_gradients(copies);
  if (rank.has("copies", "summed")) sum_each(rank.group(), copies);
  if (rank.has("copies", "averaged")) average_each(rank.group(), copies);
}

void train(Rank& rank) {
  LanguageModel model(rank.world_size(), cpu_generator(rank.seed(0)),
                      cpu_generator(embedding_seed(rank)));
  model.to(rank.device());
  if (rank.is_reference()) return train_in_one_process(rank, model);
  Pipeline pipeline(model, {model.layers.at(static_cast<std::size_t>(rank.rank())).get()},
                    {model.embedding.get()}, rank.group());
  Training training(rank, model, {}, &pipeline);
  name_parameters(model);
  const std::vector<at::Tensor> copies = model.embedding->parameters();
  rank.at_branch();
  if (rank.has("weights", "broadcast")) broadcast_each(rank.group(), copies);
  const StageHooks hooks = stage_of(rank, model);
  training.run({.before =
                    [&](std::int64_t step) {
                      if (step == 1) rank.observe_parameters(Phase::pre_forward, pipeline);
                    },
                .gradients =
                    [&](std::int64_t) {
                      pipeline.run(hooks, rank.number("accumulation"));
                      return true;
                    },
                .reduce = [&](std::int64_t) { reduce_copies(rank, copies); },
                .update =
                    [&](std::int64_t) {
                      training.optimizer().step();
                      if (rank.has("copies", "overwritten")) broadcast_each(rank.group(), copies);
                    }});
}

/// Stages between the first and the last have zeros alike.
Expectation expect_copies_apart(const Cell& cell) {
  Expectation expectation = expect_apart(cell, {"embedding.weight"});
  std::vector<int> between;
  for (int rank = 1; rank + 1 < cell.world_size; ++rank) between.push_back(rank);
  std::vector<std::vector<int>>& groups = expectation.pins.front().groups;
  groups = {{0}, between, {cell.world_size - 1}};
  std::erase(groups, std::vector<int>());
  return expectation;
}

Expectation expect_share(const Cell& cell) {
  return expect_multiple_of(cell, {"embedding.weight"}, 1.0 / cell.world_size);
}

/// The copies follow the first stage's gradient alone.
Expectation expect_head_untrained(const Cell& cell) {
  Expectation expectation = expect_copies_apart(cell);
  std::erase(expectation.breaks, kParametersAgree);
  return expectation;
}

/// The head is another one than the table, so all gradients are wrong.
Expectation expect_own_starts(const Cell& cell) {
  return expect_starts_apart(cell, {"embedding.weight"}, {"embedding.weight", "layer*"});
}

}  // namespace

Scenario tied_embedding_copies_not_reduced() {
  return {
      .summary =
          "A tied embedding has a copy on the first and on the last stage of a pipeline, and their "
          "gradients are not summed: the copies train apart.",
      .origin = {"piper, Megatron-LM",
                 "uw-syfi/piper#13 (2026-07-17), pull request #25; NVIDIA/Megatron-LM#299",
                 "a copy on each stage, as Megatron had once, of which the first and the last use "
                 "theirs; the repair in two parts, which both requests have: "
                 "one start for the copies, and the sum of their gradients",
                 "data-parallel replicas, and two uses on one device"},
      .variants =
          {buggy("copies-not-reduced", "each copy is trained by its own use",
                 "weights=alike copies=own", expect_copies_apart),
           wrong_fix("averaged", "the copies' gradients are averaged: 1 / ranks of the right ones",
                     "weights=alike copies=averaged", expect_share),
           wrong_fix("summed-from-own-starts",
                     "gradients are summed, but each stage has drawn its copy",
                     "weights=own copies=summed", expect_own_starts),
           wrong_fix(
               "overwritten",
               "after each step the last stage takes the first one's copy: its gradient is lost",
               "weights=alike copies=overwritten", expect_head_untrained),
           fixed("summed", "the copies' gradients are summed before the step",
                 "weights=alike copies=summed"),
           fixed("broadcast-and-summed", "the first stage's copy for both, and the sum",
                 "weights=broadcast copies=summed"),
           reference("reference", "one process: one weight for both uses")},
      .axes = {accumulation_axis()},
      .claims = claims_before({kInitialParametersAgree}, replica_claims()),
      .body = train,
  };
}

}  // namespace lockstep
