#include "harness/train/sharded/fully_shard.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "harness/sim/virtual_devices.h"
#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/optim/optimizer.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kWidth = 5;

/// Two MLPs between linear layers, and a parameter of its own.
struct Model : Module {
  Model()
      : embedding(register_module("embedding", std::make_shared<Linear>(3, kWidth, generator))),
        first(register_module("first", std::make_shared<SwiGlu>(kWidth, 7, generator))),
        second(register_module("second", std::make_shared<SwiGlu>(kWidth, 7, generator))),
        scale(register_parameter("scale", at::ones({1}))) {}

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = (*embedding)(input);
    return (*second)((*first)(hidden)) * scale;
  }

  at::Generator generator = cpu_generator(3);
  std::shared_ptr<Linear> embedding;
  std::shared_ptr<SwiGlu> first, second;
  at::Tensor scale;
};

at::Tensor input(std::uint64_t seed = 1) {
  return at::randn({4, 3}, cpu_generator(seed), at::kFloat);
}

bool has_data(const Module& module) { return module.parameters().front().storage().nbytes() > 0; }

std::map<std::string, at::Tensor> gradients_of(const Module& module) {
  std::map<std::string, at::Tensor> gradients;
  for (const NamedTensor& entry : module.named_parameters())
    gradients[entry.name] = entry.tensor.grad();
  return gradients;
}

void expect_gradients(const FullyShard& sharded, const std::map<std::string, at::Tensor>& right) {
  for (const auto& [name, tensor, place] : sharded.shards()) {
    const at::Tensor& expected = right.at(name);
    ASSERT_EQ(tensor.grad().defined(), expected.defined()) << name;
    EXPECT_TRUE(!expected.defined() || at::equal(tensor.grad(), expected)) << name;
  }
}

/// A world of one rank, without rounding and without collectives.
class FullyShardOnOneRank : public testing::Test {
 protected:
  /// The engine must know the devices before the first backward of the process.
  static void SetUpTestSuite() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 1});
  }

  FullyShard shard(Model& model, const std::vector<Module*>& wrapped,
                   const FullyShardOptions& options = {}) {
    return FullyShard(model, wrapped, group_, options);
  }
  FullyShard shard_mlps(Model& model, const FullyShardOptions& options = {}) {
    return shard(model, {model.first.get(), model.second.get()}, options);
  }

  TemporaryFolder folder_;
  CollectiveLog log_{collective_log_file(folder_.path(), 0), 0};
  ProcessGroup group_{RankPlacement(), GroupOptions(), log_};
};

TEST_F(FullyShardOnOneRank, TrainsAsThePlainModel) {
  Model plain;
  Model wrapped;
  Sgd plain_optimizer(plain.parameters(), 0.1);
  FullyShard sharded = shard_mlps(wrapped);
  Sgd optimizer(sharded.parameters(), 0.1);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    plain.zero_grad();
    sharded.zero_grad();
    const at::Tensor output = plain(input(step));
    const at::Tensor same = sharded.forward(input(step));
    EXPECT_TRUE(at::equal(output, same));
    output.pow(2).mean().backward();
    same.pow(2).mean().backward();
    expect_gradients(sharded, gradients_of(plain));
    plain_optimizer.step();
    optimizer.step();
  }
}

TEST_F(FullyShardOnOneRank, AddsUpGradientsOfMicroBatches) {
  for (const bool reduces_each : {true, false}) {
    Model plain;
    Model wrapped;
    FullyShard sharded = shard_mlps(wrapped);
    for (std::uint64_t batch = 1; batch <= 2; ++batch) {
      plain(input(batch)).pow(2).mean().backward();
      sharded.set_requires_gradient_sync(reduces_each || batch == 2);
      sharded.forward(input(batch)).pow(2).mean().backward();
      EXPECT_EQ(sharded.parameters()[0].grad().defined(), reduces_each || batch == 2);
    }
    expect_gradients(sharded, gradients_of(plain));
  }
}

TEST_F(FullyShardOnOneRank, HasTheNamesAndTheOrderOfTheModel) {
  Model model;
  const std::vector<NamedTensor> before = model.named_parameters();
  const std::vector<NamedShard> shards = shard_mlps(model).shards();
  ASSERT_EQ(shards.size(), before.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    EXPECT_EQ(shards[i].name, before[i].name);
    EXPECT_EQ(shards[i].place.global_shape, before[i].tensor.sizes().vec());
  }
}

TEST_F(FullyShardOnOneRank, ReleasesParametersExceptTheRootsBetweenForwardAndBackward) {
  Model model;
  FullyShard sharded = shard_mlps(model);
  EXPECT_FALSE(has_data(*model.embedding));
  EXPECT_FALSE(has_data(*model.first));
  const at::Tensor output = sharded.forward(input());
  EXPECT_TRUE(has_data(*model.embedding));
  EXPECT_FALSE(has_data(*model.first));
  output.sum().backward();
  EXPECT_FALSE(has_data(*model.embedding));
  EXPECT_FALSE(has_data(*model.first));
}

TEST_F(FullyShardOnOneRank, ReleasesAfterForwardWhatItIsTold) {
  for (const bool reshards : {true, false}) {
    Model model;
    FullyShard sharded = shard_mlps(model, {.reshard_after_forward = reshards});
    const at::Tensor output = sharded.forward(input());
    EXPECT_EQ(has_data(*model.embedding), !reshards);
    EXPECT_EQ(has_data(*model.first), !reshards);
    output.sum().backward();
    EXPECT_FALSE(has_data(*model.embedding));
  }
}

TEST_F(FullyShardOnOneRank, KeepsParametersAfterBackwardWhenItIsTold) {
  Model model;
  FullyShard sharded = shard_mlps(model);
  sharded.set_reshard_after_backward(false);
  sharded.forward(input()).sum().backward();
  EXPECT_TRUE(has_data(*model.first));
  sharded.set_reshard_after_backward(true);
  sharded.forward(input()).sum().backward();
  EXPECT_FALSE(has_data(*model.first));
}

TEST_F(FullyShardOnOneRank, GathersAndReleasesAModuleWhenItIsTold) {
  Model plain;
  Model model;
  FullyShard sharded = shard_mlps(model);
  sharded.unshard(*model.first);
  EXPECT_TRUE(has_data(*model.first));
  EXPECT_FALSE(has_data(*model.second));
  EXPECT_FALSE(has_data(*model.embedding));
  const at::Tensor rows = at::ones({4, kWidth});
  EXPECT_TRUE(at::equal(model.first->forward(rows), plain.first->forward(rows)));
  sharded.reshard(*model.first);
  EXPECT_FALSE(has_data(*model.first));
  EXPECT_THROW(sharded.unshard(*model.embedding), Error) << "it is no unit of its own";
}

/// Parameters that are not released are not gathered again.
TEST_F(FullyShardOnOneRank, ParametersThatAreKeptAreThoseOfBeforeTheStep) {
  Model model;
  FullyShard sharded = shard(model, {});
  sharded.set_reshard_after_backward(false);
  const at::Tensor before = sharded.forward(input());
  before.pow(2).mean().backward();
  Sgd(sharded.parameters(), 0.1).step();
  EXPECT_TRUE(at::equal(sharded.forward(input()), before));
  sharded.reshard(model);
  EXPECT_FALSE(at::equal(sharded.forward(input()), before));
}

TEST_F(FullyShardOnOneRank, ModuleThatIsBypassedHasNoData) {
  Model model;
  FullyShard sharded = shard_mlps(model);
  sharded.forward(input()).sum().backward();
  try {
    model.first->forward(at::ones({4, kWidth}));
    FAIL() << "it was used";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(fully_shard_error::kViewOfReleased));
  }
}

TEST_F(FullyShardOnOneRank, WithoutGradModeGathersAndReleases) {
  Model plain;
  Model model;
  FullyShard sharded = shard_mlps(model);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(sharded.forward(input()), plain(input())));
  EXPECT_FALSE(has_data(*model.first));
}

/// The tile loop recomputes the MLP in backward, between the gathering and the reduction.
TEST_F(FullyShardOnOneRank, TakesTheGradientsOfATileLoop) {
  Model plain;
  tile_calls(*plain.first, {.tiles = 2});
  Model model;
  tile_calls(*model.first, {.tiles = 2});
  FullyShard sharded = shard_mlps(model);
  plain(input()).pow(2).mean().backward();
  sharded.forward(input()).pow(2).mean().backward();
  expect_gradients(sharded, gradients_of(plain));
}

TEST_F(FullyShardOnOneRank, RecomputesACheckpointWithItsParameters) {
  Model plain;
  Model model;
  FullyShard sharded = shard_mlps(model);
  const auto loss = [](Model& of, const at::Tensor& batch) {
    const SegmentOfOne segment = [&of](const at::Tensor& rows) { return (*of.first)(rows); };
    const at::Tensor hidden = checkpoint(segment, (*of.embedding)(batch));
    return (*of.second)(hidden).pow(2).mean() * of.scale.sum();
  };
  loss(plain, input()).backward();
  const auto outputs = sharded.forward({input()}, [&](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{loss(model, inputs[0])};
  });
  outputs[0].backward();
  expect_gradients(sharded, gradients_of(plain));
}

TEST_F(FullyShardOnOneRank, PassesInputsAndOutputsOfAnyNumber) {
  Model plain;
  Model model;
  FullyShard sharded = shard_mlps(model);
  at::Tensor left = input(1).requires_grad_(true);
  at::Tensor right = input(2).requires_grad_(true);
  const auto outputs =
      sharded.forward({left, at::ones({4}, at::kLong), right}, [&](const auto& inputs) {
        EXPECT_EQ(inputs[1].scalar_type(), at::kLong);
        return std::vector<at::Tensor>{model.forward(inputs[0]), model.forward(inputs[2])};
      });
  (outputs[0].sum() + outputs[1].sum()).backward();
  (plain(input(1)).sum() + plain(input(2)).sum()).backward();
  expect_gradients(sharded, gradients_of(plain));
  EXPECT_TRUE(left.grad().defined());
  EXPECT_TRUE(right.grad().defined());
}

TEST_F(FullyShardOnOneRank, ComputesInOneDtypeAndStepsInAnother) {
  Model model;
  FullyShard sharded =
      shard_mlps(model, {.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat});
  const at::Tensor output = sharded.forward(input());
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  output.sum().backward();
  for (const at::Tensor& shard : sharded.parameters()) {
    EXPECT_EQ(shard.scalar_type(), at::kFloat);
    EXPECT_EQ(shard.grad().scalar_type(), at::kFloat);
  }
}

TEST_F(FullyShardOnOneRank, GivesMemoryOfADeviceBack) {
  const at::Device device = virtual_device(0);
  Model plain;
  Model model;
  model.to(device);
  FullyShard sharded = shard_mlps(model);
  const std::int64_t before = virtual_memory(0).live;
  at::Tensor loss = sharded.forward(input().to(device)).pow(2).mean();
  EXPECT_GT(virtual_memory(0).live, before);
  loss.backward();
  loss.reset();
  plain(input()).pow(2).mean().backward();
  std::int64_t gradients = 0;
  for (const auto& [name, tensor, place] : sharded.shards()) {
    EXPECT_TRUE(at::equal(tensor.grad().cpu(), gradients_of(plain).at(name))) << name;
    gradients += static_cast<std::int64_t>(tensor.grad().nbytes());
  }
  EXPECT_EQ(virtual_memory(0).live, before + gradients);
}

TEST_F(FullyShardOnOneRank, FrozenParametersGetNoGradient) {
  Model plain;
  Model model;
  plain.first->freeze();
  model.first->freeze();
  FullyShard sharded = shard_mlps(model);
  plain(input()).sum().backward();
  sharded.forward(input()).sum().backward();
  expect_gradients(sharded, gradients_of(plain));
}

TEST_F(FullyShardOnOneRank, LeavesIgnoredParametersWhole) {
  Model model;
  const std::vector<at::Tensor> ignored = model.second->parameters();
  FullyShard sharded = shard(model, {model.first.get()}, {.ignored_params = ignored});
  EXPECT_FALSE(has_data(*model.first));
  EXPECT_TRUE(has_data(*model.second));
  for (const auto& [name, tensor, place] : sharded.shards()) {
    const bool is_ignored = name.rfind("second.", 0) == 0;
    EXPECT_EQ(place.global_shape.empty(), is_ignored) << name;
  }
  sharded.forward(input()).sum().backward();
  EXPECT_TRUE(ignored.front().grad().defined());
  EXPECT_TRUE(sharded.shards().back().tensor.grad().defined());
}

TEST_F(FullyShardOnOneRank, RefusesModulesThatItCannotGroup) {
  Model model;
  Model other;
  EXPECT_THROW(shard(model, {other.first.get()}), Error);
  EXPECT_THROW(shard(model, {&model}), Error);
  EXPECT_THROW(shard(model, {model.first.get(), model.first.get()}), Error);
  shard_mlps(model);
  EXPECT_THROW(shard_mlps(model), Error) << "it is sharded already";
}

TEST_F(FullyShardOnOneRank, RefusesAGroupOfSeveralDtypes) {
  Model model;
  model.first->to(at::kDouble);
  EXPECT_THROW(shard(model, {}), Error);
}

}  // namespace
}  // namespace lockstep
