#include "harness/train/sharded/pipeline.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "tests/train/helpers.h"
#include "tests/train/on_ranks.h"

namespace lockstep {
namespace {

constexpr int kStages = 3;
constexpr std::int64_t kMicroBatches = 2;
constexpr std::int64_t kWidth = 4;

/// A layer for each stage, and a scale that all stages have.
struct Stages : Module {
  Stages() {
    const at::Generator generator = cpu_generator(3);
    for (int stage = 0; stage < kStages; ++stage) {
      layers.push_back(register_module("layer" + std::to_string(stage),
                                       std::make_shared<Linear>(kWidth, kWidth, generator)));
    }
    shared = register_module("shared", std::make_shared<Linear>(kWidth, kWidth, generator));
  }
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor output = input;
    for (const auto& layer : layers) output = (*layer)(output).tanh();
    return output;
  }

  std::vector<std::shared_ptr<Linear>> layers;
  std::shared_ptr<Linear> shared;
};

/// Micro-batches have different lengths.
at::Tensor input_of(std::int64_t index) {
  return normal({2 + index, kWidth}, 10 + static_cast<std::uint64_t>(index));
}

at::Tensor loss_of(const at::Tensor& output, std::int64_t index) {
  return output.pow(2).sum() * (index + 1);
}

StageHooks stage_of(Module& layer) {
  return {.input = input_of,
          .forward = [&layer](const at::Tensor& input) { return layer(input).tanh(); },
          .loss = loss_of,
          .shape =
              [](std::int64_t index) {
                return std::vector{2 + index, kWidth};
              },
          .options = at::kFloat};
}

TEST(Pipeline, AddsTheGradientsOfTheWholeModelToEachStage) {
  expect_on_ranks(kStages, [](ProcessGroup& group) {
    Stages whole, model;
    for (int run = 0; run < 2; ++run) {
      for (std::int64_t index = 0; index < kMicroBatches; ++index) {
        loss_of(whole(input_of(index)), index).backward();
      }
    }
    const auto stage = static_cast<std::size_t>(group.rank());
    Pipeline pipeline(model, {model.layers[stage].get()}, {}, group);
    for (int run = 0; run < 2; ++run) {
      pipeline.run(stage_of(*model.layers[stage]), kMicroBatches);
    }
    const std::vector<at::Tensor> right = whole.layers[stage]->parameters();
    const std::vector<at::Tensor> trained = pipeline.parameters();
    return trained.size() == 2 && at::equal(trained[0].grad(), right[0].grad()) &&
           at::equal(trained[1].grad(), right[1].grad());
  });
}

TEST(ModelParts, AreOfOneRankOrOfAll) {
  Stages model;
  const ModelParts parts(model, {model.layers[1].get()}, {model.shared.get()});
  const std::vector<NamedShard> shards = parts.shards();
  ASSERT_EQ(shards.size(), 4U);
  EXPECT_EQ(shards[0].name, "layer1.weight");
  EXPECT_EQ(shards[0].place.global_shape, (std::vector<std::int64_t>{kWidth, kWidth}));
  EXPECT_EQ(shards[0].place.offset, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(shards[2].name, "shared.weight");
  EXPECT_TRUE(shards[2].place.global_shape.empty());
  EXPECT_TRUE(shards[3].tensor.is_same(model.shared->parameters()[1]));
}

}  // namespace
}  // namespace lockstep
