// The small trainings that tests/parity/model_parallel_parity.py runs with Python's collectives
// that autograd knows, its tensor parallelism and its pipeline. Both sides must agree in bits. The
// name of a variant is its words, joined by "+"; the Python side reads them from the folders of a
// run.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/collectives.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/pipeline.h"
#include "harness/train/sharded/tensor_parallel.h"
#include "tests/parity/parity_scenario.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kMicroBatches = 3;
constexpr std::int64_t kRows = 2;         // of a micro-batch, or of a rank
constexpr std::int64_t kSplitWidth = 12;  // over 2 or 3 ranks
constexpr double kLearningRate = 0.1;

/// A layer for each rank.
struct Layers : Module {
  explicit Layers(int count) {
    const at::Generator generator = cpu_generator(7);
    for (int i = 0; i < count; ++i) {
      all.push_back(register_module("layer" + std::to_string(i),
                                    std::make_shared<Linear>(kWidth, kWidth, generator)));
    }
  }
  at::Tensor forward(const at::Tensor& input) override { return (*all[0])(input); }

  std::vector<std::shared_ptr<Linear>> all;
};

/// Megatron's MLP behind a layer that every rank has whole: one matrix is cut by rows, the next by
/// columns.
struct SplitLayers : Module {
  SplitLayers() {
    const at::Generator generator = cpu_generator(7);
    first = register_module("first", std::make_shared<Linear>(kWidth, kWidth, generator));
    up = register_module("up", std::make_shared<Linear>(kWidth, kSplitWidth, generator, false));
    down = register_module("down", std::make_shared<Linear>(kSplitWidth, kWidth, generator, false));
  }
  at::Tensor forward(const at::Tensor& input) override { return (*first)(input); }

  std::shared_ptr<Linear> first, up, down;
};

at::Tensor drawn(std::int64_t seed, std::int64_t rows) {
  return at::randn({rows, kWidth}, cpu_generator(static_cast<std::uint64_t>(seed)), at::kFloat);
}

at::Tensor through_collectives(Rank& rank, Layers& model, const at::Tensor& input) {
  ProcessGroup& group = rank.group();
  const at::Tensor hidden = (*model.all[0])(input);
  if (rank.has("gather-scatter")) {
    const at::Tensor all = gathered_over_ranks(group, hidden).tanh();
    return scattered_sum_of_ranks(group, (*model.all[1])(all));
  }
  if (rank.has("all-to-all")) {
    const at::Tensor elsewhere = exchanged_between_ranks(group, hidden).tanh();
    return exchanged_between_ranks(group, (*model.all[1])(elsewhere));
  }
  const bool reduces = rank.has("all-reduce");
  return (*model.all[1])((reduces ? summed_over_ranks(group, hidden) : hidden).tanh());
}

void train_with_collectives(Rank& rank) {
  Layers model(rank.world_size());
  Sgd optimizer(model.parameters(), kLearningRate);
  rank.train([&](std::int64_t step) {
    model.zero_grad();
    const at::Tensor input = drawn(1000 * step + rank.rank(), kRows * rank.world_size());
    through_collectives(rank, model, input).pow(2).mean().backward();
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

void run_pipeline(Pipeline& pipeline, Module& own, std::int64_t seed) {
  const at::Tensor inputs = drawn(seed, kRows * kMicroBatches);
  const at::Tensor targets = drawn(seed + 1, kRows * kMicroBatches);
  const auto part = [](const at::Tensor& whole, std::int64_t index) {
    return whole.narrow(0, index * kRows, kRows);
  };
  pipeline.run(
      {.input = [&](std::int64_t index) { return part(inputs, index); },
       .forward = [&](const at::Tensor& input) { return own(input).tanh(); },
       .loss = [&](const at::Tensor& output,
                   std::int64_t index) { return (output - part(targets, index)).pow(2).sum(); },
       .shape =
           [](std::int64_t) {
             return std::vector{kRows, kWidth};
           },
       .options = at::kFloat},
      kMicroBatches);
}

void train_in_pipeline(Rank& rank) {
  Layers model(rank.world_size());
  Module& own = *model.all[static_cast<std::size_t>(rank.rank())];
  Pipeline pipeline(model, {&own}, {}, rank.group());
  Sgd optimizer(pipeline.parameters(), kLearningRate);
  rank.train([&](std::int64_t step) {
    pipeline.zero_grad();
    run_pipeline(pipeline, own, 1000 * step);
    if (rank.has("two-runs")) run_pipeline(pipeline, own, 1000 * step + 500);
    rank.observe_gradients(Phase::pre_step, pipeline);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, pipeline);
  });
}

void train_split_layers(Rank& rank) {
  SplitLayers model;
  TensorParallel parts(model, {{"up.weight", 0}, {"down.weight", 1}}, rank.group());
  Sgd optimizer(parts.parameters(), kLearningRate);
  rank.train([&](std::int64_t step) {
    parts.zero_grad();
    const at::Tensor hidden =
        (*model.first)(drawn(1000 * step, kRows)).tanh();  // of the same samples
    const at::Tensor partial =
        (*model.down)((*model.up)(copied_to_ranks(rank.group(), hidden)).tanh());
    sum_on_all_ranks(rank.group(), partial).pow(2).mean().backward();
    rank.observe_gradients(Phase::pre_step, parts);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, parts);
  });
}

void train(Rank& rank) {
  rank.at_branch();
  if (rank.has("tensor-parallel")) return train_split_layers(rank);
  rank.has("pipeline") ? train_in_pipeline(rank) : train_with_collectives(rank);
}

}  // namespace

Scenario model_parallel_parity() {
  return parity_scenario(
      "Small trainings of a model that is divided over ranks.",
      {variant_of_words({"all-reduce"}), variant_of_words({"gather-scatter"}),
       variant_of_words({"all-to-all"}), variant_of_words({"tensor-parallel"}),
       variant_of_words({"pipeline"}), variant_of_words({"pipeline", "two-runs"})},
      train);
}

}  // namespace lockstep
