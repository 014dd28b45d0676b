#include "harness/train/sharded/zero.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/comm/store_service.h"
#include "harness/launch/launch.h"
#include "harness/sim/virtual_devices.h"
#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/sharded/fully_shard.h"
#include "harness/train/sharded/parameter_attributes.h"
#include "harness/train/sharded/partition_layout.h"
#include "harness/train/sharded/tile_readiness.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

TEST(PartitionLayout, CoversEveryElementOnceInOrder) {
  const std::vector<std::vector<std::int64_t>> models{{8, 0, 24, 7, 1}, {1}, {0},         {0, 3, 0},
                                                      {100, 1, 1},      {7}, {2, 2, 2, 2}};
  for (const auto& sizes : models) {
    for (int partitions = 1; partitions <= 5; ++partitions) {
      const PartitionLayout layout(sizes, partitions, 2);
      std::int64_t end_of_last = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        std::int64_t next = 0;
        for (int partition = 0; partition < partitions; ++partition) {
          const PartitionPiece piece = layout.piece(i, partition);
          EXPECT_EQ(piece.first, next);
          next += piece.elements;
          EXPECT_LE(piece.offset + piece.elements, layout.partition_size());
          if (piece.elements == 0) continue;
          const auto in_whole = partition * layout.partition_size() + piece.offset;
          EXPECT_EQ(in_whole, layout.begin(i) + piece.first);
          EXPECT_EQ(in_whole, end_of_last);
          end_of_last += piece.elements;
        }
        EXPECT_EQ(next, sizes[i]);
      }
      EXPECT_EQ(layout.partition_size() % 2, 0);
      EXPECT_GE(layout.elements(), end_of_last);
      EXPECT_LT(layout.elements() - end_of_last, 2 * partitions);
    }
  }
}

/// A parameter of this many elements, possibly zero; each gets its own gradient.
struct Layer : Module {
  Layer(std::int64_t elements, const at::Generator& generator)
      : weight(
            register_parameter("weight", at::randn({elements}, generator, at::TensorOptions()))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return input + at::outer(input, weight).sin().sum(1) / 4;
  }

  at::Tensor weight;
};

/// Parameters that boundaries cut once or twice, that are empty, or smaller than a partition.
struct Model : Module {
  explicit Model(const std::vector<std::int64_t>& sizes = {8, 0, 24, 7, 1}) {
    const at::Generator generator = cpu_generator(3);
    scale = register_parameter("scale", at::randn({1}, generator, at::TensorOptions()));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto part = std::make_shared<Layer>(sizes[i], generator);
      parts.push_back(register_module(fmt::format("parts.{}", i), part));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor output = input * scale;
    for (const auto& part : parts) {
      if (part != skipped) output = (*part)(output);
    }
    return output;
  }

  at::Tensor scale;
  std::vector<std::shared_ptr<Layer>> parts;
  std::shared_ptr<Layer> skipped;
};

at::Tensor input(int seed, int rank) {
  return at::randn({6}, cpu_generator(static_cast<std::uint64_t>(100 * seed + rank)),
                   at::TensorOptions());
}

at::Tensor loss_of(const at::Tensor& output) { return output.pow(2).mean(); }

/// Computes the mean over the ranks in `model`, added to the previous gradients.
void add_mean_gradients(Model& model, int seed, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) (loss_of(model(input(seed, rank))) / ranks).backward();
}

/// The elements of a whole, flattened tensor that a shard covers.
at::Tensor slice(const at::Tensor& whole, const NamedShard& shard) {
  return whole.detach().reshape({-1}).narrow(0, shard.place.offset.at(0), shard.tensor.numel());
}

/// The first difference between `of(shard)` and `of(parameter)` on one process; empty: none.
std::string difference(const Zero& zero, const Module& plain,
                       const std::function<at::Tensor(const at::Tensor&)>& of) {
  const std::vector<NamedTensor> whole = plain.named_parameters();
  const std::vector<NamedShard> shards = zero.shards();
  if (shards.size() != whole.size()) return "another number of shards";
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (shards[i].name != whole[i].name) return "another order of shards";
    if (shards[i].place.global_shape.at(0) != whole[i].tensor.numel()) return "another shape";
    if (!whole[i].tensor.requires_grad()) continue;
    const at::Tensor ours = of(shards[i].tensor);
    if (!ours.defined()) return whole[i].name + " has none";
    if (!at::allclose(ours, slice(of(whole[i].tensor), shards[i]), 1e-5, 1e-6))
      return whole[i].name;
  }
  return "";
}

/// An unused parameter counts as zeros.
at::Tensor gradient_of(const at::Tensor& tensor) {
  if (tensor.grad().defined() || !tensor.is_leaf()) return tensor.grad();
  return at::zeros_like(tensor.detach());
}
std::string gradient_difference(const Zero& zero, const Module& plain) {
  return difference(zero, plain, gradient_of);
}
std::string parameter_difference(const Zero& zero, const Module& plain) {
  return difference(zero, plain, [](const at::Tensor& tensor) { return tensor.detach(); });
}

/// All stages, with gradients that are reduced together and with buckets that some do not fit.
std::vector<ZeroOptions> all_options() {
  std::vector<ZeroOptions> all;
  for (int stage = 1; stage <= 3; ++stage) {
    all.push_back({.stage = stage});
    all.push_back({.stage = stage, .reduce_bucket_size = 10});
  }
  return all;
}

/// Returns the error that a rank found; empty: none.
using Body = std::function<std::string(ProcessGroup& group, const ZeroOptions& options)>;

class ZeroRanks : public testing::TestWithParam<int> {
 protected:
  void run(const Body& body, const std::vector<ZeroOptions>& all = all_options()) {
    LaunchOptions launch;
    launch.ranks = GetParam();
    launch.folder = folder_.path() / std::to_string(++launches_);
    std::filesystem::create_directory(launch.folder);
    launch.host = serve_store;
    const std::vector<RankExit> exits = launch_ranks(launch, [&](const RankPlacement& placement) {
      CollectiveLog log(collective_log_file(launch.folder, placement.rank), placement.rank);
      ProcessGroup group(placement, {}, log);
      for (const ZeroOptions& options : all) {
        const std::string wrong = body(group, options);
        if (wrong.empty()) continue;
        std::puts(
            fmt::format("stage {}, bucket {}: {}", options.stage, options.reduce_bucket_size, wrong)
                .c_str());
        std::fflush(stdout);
        return 1;
      }
      return 0;
    });
    for (const RankExit& end : exits) {
      EXPECT_TRUE(end.kind == ExitKind::finished && end.code == 0)
          << "rank " << end.rank << ": " << end.last_output;
    }
  }

  TemporaryFolder folder_;
  int launches_ = 0;
};

INSTANTIATE_TEST_SUITE_P(World, ZeroRanks, testing::Values(2, 3, 4),
                         testing::PrintToStringParamName());

TEST_P(ZeroRanks, ReduceGradientsToTheMean) {
  run([](ProcessGroup& group, const ZeroOptions& options) {
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{8, 0, 24, 7, 1}, {1}, {0, 3}}) {
      Model plain(sizes);
      Model model(sizes);
      Zero zero(model, group, options);
      zero.zero_grad();
      loss_of(zero.forward(input(1, group.rank()))).backward();
      add_mean_gradients(plain, 1, group.size());
      std::string wrong = gradient_difference(zero, plain);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  });
}

TEST_P(ZeroRanks, TrainAsThePlainModel) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    run([&](ProcessGroup& group, const ZeroOptions& options) {
      Model plain;
      Model model;
      Zero zero(model, group, options);
      const auto own = make_optimizer(optimizer, zero.parameters(), 0.05);
      const auto whole = make_optimizer(optimizer, plain.parameters(), 0.05);
      for (int step = 1; step <= 3; ++step) {
        zero.zero_grad();
        plain.zero_grad();
        loss_of(zero.forward(input(step, group.rank()))).backward();
        add_mean_gradients(plain, step, group.size());
        own->step();
        whole->step();
        zero.finish_step();
      }
      std::string wrong = parameter_difference(zero, plain);
      if (!wrong.empty() || options.stage == 3) return wrong;
      const at::NoGradGuard no_grad;
      for (const NamedTensor& entry : model.named_parameters()) {
        at::Tensor of_first = entry.tensor.clone();
        group.broadcast(of_first, 0);
        if (!at::equal(of_first, entry.tensor)) return entry.name + " differs between ranks";
      }
      for (const NamedShard& shard : zero.shards()) {
        for (const NamedTensor& entry : model.named_parameters()) {
          if (entry.name == shard.name &&
              !at::equal(slice(entry.tensor, shard), shard.tensor.detach())) {
            return entry.name + " is not what was stepped";
          }
        }
      }
      return std::string();
    });
  }
}

TEST_P(ZeroRanks, AddUpGradientsOfMicroBatches) {
  for (const bool says_which_is_last : {true, false}) {
    run([&](ProcessGroup& group, const ZeroOptions& options) {
      Model plain;
      Model model;
      Zero zero(model, group, options);
      for (int step = 0; step < 2; ++step) {
        zero.zero_grad();
        plain.zero_grad();
        for (int batch = 1; batch <= 3; ++batch) {
          zero.set_requires_gradient_sync(!says_which_is_last || batch == 3);
          loss_of(zero.forward(input(10 * step + batch, group.rank()))).backward();
          add_mean_gradients(plain, 10 * step + batch, group.size());
        }
        std::string wrong = gradient_difference(zero, plain);
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    });
  }
}

TEST_P(ZeroRanks, LeaveFrozenParametersAlone) {
  run([](ProcessGroup& group, const ZeroOptions& options) {
    Model plain;
    Model model;
    for (Model* of : {&plain, &model}) of->parts[2]->freeze();
    Zero zero(model, group, options);
    loss_of(zero.forward(input(1, group.rank()))).backward();
    add_mean_gradients(plain, 1, group.size());
    for (const NamedShard& shard : zero.shards()) {
      if (shard.name != "parts.2.weight") continue;
      if (shard.tensor.requires_grad() || shard.tensor.grad().defined()) return shard.name;
      if ((options.stage < 3) != (shard.tensor.numel() == 0)) return std::string("size of a part");
    }
    return gradient_difference(zero, plain);
  });
}

/// DeepSpeed's behaviour in each stage.
TEST_P(ZeroRanks, GiveAnUnusedParameterZerosOrInStage3WhatItHad) {
  run([](ProcessGroup& group, const ZeroOptions& options) {
    Model plain;
    Model model;
    Zero zero(model, group, options);
    for (int step = 1; step <= 2; ++step) {
      zero.zero_grad();
      const at::Tensor before = plain.parts[2]->weight.grad();
      plain.zero_grad();
      if (step == 2) {
        model.skipped = model.parts[2];
        plain.skipped = plain.parts[2];
      }
      loss_of(zero.forward(input(step, group.rank()))).backward();
      add_mean_gradients(plain, step, group.size());
      if (step == 2 && options.stage == 3) plain.parts[2]->weight.mutable_grad() = before;
      std::string wrong = gradient_difference(zero, plain);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  });
}

/// An MLP between linear layers.
struct TiledModel : Module {
  explicit TiledModel(std::optional<TilingOptions> tiling = {})
      : embedding(register_module("embedding", std::make_shared<Linear>(3, 5, generator))),
        mlp(register_module("mlp", std::make_shared<SwiGlu>(5, 7, generator))),
        head(register_module("head", std::make_shared<Linear>(5, 1, generator))) {
    if (tiling) tile_calls(*mlp, *tiling);
  }

  at::Tensor forward(const at::Tensor& rows) override {
    at::Tensor hidden = (*embedding)(rows);
    hidden = checkpoints ? checkpoints([this](const at::Tensor& x) { return (*mlp)(x); }, hidden)
                         : (*mlp)(hidden);
    return (*head)(hidden);
  }

  at::Generator generator = cpu_generator(3);
  std::shared_ptr<Linear> embedding;
  std::shared_ptr<SwiGlu> mlp;
  std::shared_ptr<Linear> head;
  std::function<at::Tensor(const SegmentOfOne&, const at::Tensor&)> checkpoints;
};

at::Tensor rows(int rank) {
  return at::randn({4, 3}, cpu_generator(static_cast<std::uint64_t>(50 + rank)), at::kFloat);
}

void add_mean_gradients(TiledModel& model, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) (loss_of(model(rows(rank))) / ranks).backward();
}

TEST_P(ZeroRanks, TakeTheGradientsOfTilesThatSayWhichIsTheLast) {
  run([](ProcessGroup& group, const ZeroOptions& options) {
    TiledModel plain;
    TilingOptions tiling{.tiles = 2};
    tell_readiness(tiling);
    TiledModel model(tiling);
    Zero zero(model, group, options);
    loss_of(zero.forward(rows(group.rank()))).backward();
    add_mean_gradients(plain, group.size());
    return gradient_difference(zero, plain);
  });
}

/// Gradient of the MLP from tile `tile` of two on `rank`, flattened.
at::Tensor gradient_of_tile(const std::string& name, int rank, int tile) {
  TiledModel plain;
  const at::Tensor hidden = (*plain.embedding)(rows(rank)).detach();
  const at::Tensor outputs = (*plain.head)((*plain.mlp)(hidden));
  (outputs.narrow(0, 2 * tile, 2).pow(2).sum() / outputs.numel()).backward();
  for (const NamedTensor& entry : plain.named_parameters()) {
    if (entry.name == name) return entry.tensor.grad().reshape({-1});
  }
  return {};
}

/// Whether `shard`'s parameter has elements in the partition of `rank` of stages 1 and 2.
bool holds_part(const std::string& name, int rank, int ranks) {
  const TiledModel plain;
  const std::vector<NamedTensor> all = plain.named_parameters();
  std::vector<std::int64_t> sizes;
  for (const NamedTensor& entry : all) sizes.push_back(entry.tensor.numel());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return PartitionLayout(sizes, ranks, 2).piece(i, rank).elements > 0;
  }
  return false;
}

/// Gradient of an MLP parameter on `own` if each tile is reduced. Stage 3: the mean of the last
/// tile. Stage 2: that, plus the first tile's gradient that ranks still had when they added to it.
/// On the owning rank that is its mean, on others that kept the gradient their own part of it.
at::Tensor reduced_per_tile(const std::string& name, int stage, int own, int ranks) {
  at::Tensor sum = at::zeros_like(gradient_of_tile(name, 0, 0));
  for (int rank = 0; rank < ranks; ++rank) {
    sum += gradient_of_tile(name, rank, 1);
    if (stage == 3) continue;
    for (int other = 0; rank == own && other < ranks; ++other) {
      sum += gradient_of_tile(name, other, 0) / ranks;
    }
    if (rank != own && holds_part(name, rank, ranks))
      sum += gradient_of_tile(name, rank, 0) / ranks;
  }
  return sum / ranks;
}

/// Stage 1 reduces at the end, and so do the others if all gradients fit into a bucket.
TEST_P(ZeroRanks, ReduceEachTileThatSaysNothing) {
  run([](ProcessGroup& group, const ZeroOptions& options) {
    TiledModel plain;
    TiledModel model(TilingOptions{.tiles = 2});
    Zero zero(model, group, options);
    loss_of(zero.forward(rows(group.rank()))).backward();
    add_mean_gradients(plain, group.size());
    if (options.stage == 1 || options.reduce_bucket_size > 1000) {
      return gradient_difference(zero, plain);
    }
    for (const NamedTensor& entry : plain.named_parameters()) {
      if (entry.name.find("mlp") != 0) continue;
      at::Tensor& gradient = entry.tensor.mutable_grad();
      gradient = reduced_per_tile(entry.name, options.stage, group.rank(), group.size())
                     .view(entry.tensor.sizes());
    }
    return gradient_difference(zero, plain);
  });
}

TEST_P(ZeroRanks, LeaveAGradientThatIsNotReadyWhereItIs) {
  run(
      [](ProcessGroup& group, const ZeroOptions& options) {
        Model plain;
        Model model;
        Zero zero(model, group, options);
        const at::Tensor late = model.parts[2]->weight;
        set_attribute(late, zero_attribute::kGradientIsReady, 0);
        loss_of(zero.forward(input(1, group.rank()))).backward();
        loss_of(plain(input(1, group.rank()))).backward();
        const at::Tensor own = plain.parts[2]->weight.grad();
        if (!late.grad().defined() || !at::allclose(late.grad(), own)) {
          return std::string("the gradient is gone");
        }
        plain.zero_grad();
        add_mean_gradients(plain, 1, group.size());
        plain.parts[2]->weight.mutable_grad() = at::zeros_like(own);
        std::string wrong = gradient_difference(zero, plain);
        if (!wrong.empty()) return wrong;
        set_attribute(late, zero_attribute::kGradientIsReady, 1);
        zero.zero_grad();
        plain.zero_grad();
        loss_of(zero.forward(input(1, group.rank()))).backward();
        add_mean_gradients(plain, 1, group.size());
        return gradient_difference(zero, plain);
      },
      {{.stage = 3}, {.stage = 3, .reduce_bucket_size = 10}});
}

/// A world of one rank, without collectives.
class ZeroOnOneRank : public testing::Test {
 protected:
  /// The engine must know the devices before the first backward of the process.
  static void SetUpTestSuite() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 1});
  }

  TemporaryFolder folder_;
  CollectiveLog log_{collective_log_file(folder_.path(), 0), 0};
  ProcessGroup group_{RankPlacement(), GroupOptions(), log_};
};

bool has_data(const Module& module) { return module.parameters().front().storage().nbytes() > 0; }

TEST_F(ZeroOnOneRank, MarksParametersAsDeepSpeedDoes) {
  for (int stage = 1; stage <= 3; ++stage) {
    Model model;
    model.parts[0]->freeze();
    const Zero zero(model, group_, {.stage = stage});
    std::int64_t trained = 0;
    std::int64_t all = 0;
    for (const at::Tensor& parameter : model.parameters()) {
      const bool is_in_group = stage < 3 && parameter.requires_grad();
      EXPECT_EQ(attribute(parameter, zero_attribute::kIndexInGroup),
                is_in_group ? std::optional(trained++) : std::nullopt);
      EXPECT_EQ(attribute(parameter, zero_attribute::kId),
                stage == 3 ? std::optional(all++) : std::nullopt);
    }
  }
}

TEST_F(ZeroOnOneRank, Stage3HoldsParametersOnlyWhileAModuleComputes) {
  TiledModel model;
  Zero zero(model, group_, {.stage = 3});
  EXPECT_FALSE(has_data(*model.embedding));
  model.checkpoints = [&](const SegmentOfOne& segment, const at::Tensor& hidden) {
    EXPECT_FALSE(has_data(*model.embedding));
    return segment(hidden);
  };
  const at::Tensor output = zero.forward(rows(0));
  for (const auto& part : model.children()) EXPECT_FALSE(has_data(*part.module)) << part.name;
  output.sum().backward();
  for (const auto& part : model.children()) EXPECT_FALSE(has_data(*part.module)) << part.name;
  const at::NoGradGuard no_grad;
  zero.forward(rows(0));
  EXPECT_FALSE(has_data(*model.head));
}

TEST_F(ZeroOnOneRank, Stage3HasNoDataForAModuleThatIsBypassed) {
  TiledModel model;
  Zero zero(model, group_, {.stage = 3});
  try {
    model.embedding->forward(rows(0));
    FAIL() << "it was used";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(fully_shard_error::kViewOfReleased));
  }
}

TEST_F(ZeroOnOneRank, ComputesAgainInBackwardWithItsParameters) {
  const auto non_reentrant = [](const SegmentOfOne& segment, const at::Tensor& hidden) {
    return checkpoint(segment, hidden);
  };
  const auto reentrant = [](const SegmentOfOne& segment, const at::Tensor& hidden) {
    return checkpoint_reentrant(segment, hidden);
  };
  for (int stage = 1; stage <= 3; ++stage) {
    for (const bool is_reentrant : {false, true}) {
      TiledModel plain;
      TiledModel model;
      for (TiledModel* of : {&plain, &model}) {
        if (is_reentrant) {
          of->checkpoints = reentrant;
        } else {
          of->checkpoints = non_reentrant;
        }
      }
      Zero zero(model, group_, {.stage = stage});
      loss_of(zero.forward(rows(0))).backward();
      add_mean_gradients(plain, 1);
      EXPECT_EQ(gradient_difference(zero, plain), "") << stage << is_reentrant;
    }
  }
}

TEST_F(ZeroOnOneRank, Stage3KeepsTheSecondReductionOfTheFirstBackwardAndAddsInLaterOnes) {
  TiledModel plain;
  TiledModel model(TilingOptions{.tiles = 2});
  Zero zero(model, group_, {.stage = 3, .reduce_bucket_size = 1});
  const auto backward = [&] { loss_of(zero.forward(rows(0))).backward(); };
  backward();
  // With one tile: the loss of the whole, in which the other half gives no gradient to the MLP.
  const at::Tensor hidden = (*plain.embedding)(rows(0)).detach();
  const at::Tensor outputs = (*plain.head)((*plain.mlp)(hidden));
  const at::Tensor of_last = (outputs.narrow(0, 2, 2).pow(2).sum() / outputs.numel());
  of_last.backward();
  const at::Tensor last_tile = plain.mlp->parameters()[0].grad();
  plain.zero_grad();
  add_mean_gradients(plain, 1);
  const at::Tensor whole = plain.mlp->parameters()[0].grad();
  const auto gate = [&] {
    for (const NamedShard& shard : zero.shards()) {
      if (shard.name == "mlp.gate.weight") return shard.tensor.grad().view_as(whole);
    }
    return at::Tensor();
  };
  EXPECT_TRUE(at::allclose(gate(), last_tile));
  backward();
  EXPECT_TRUE(at::allclose(gate(), last_tile + whole));
}

TEST_F(ZeroOnOneRank, Stage1LeavesGradientsWholeUntilItIsToReduceThem) {
  for (int stage = 1; stage <= 3; ++stage) {
    Model model;
    Zero zero(model, group_, {.stage = stage});
    zero.set_requires_gradient_sync(false);
    loss_of(zero.forward(input(1, 0))).backward();
    EXPECT_EQ(model.scale.grad().defined(), stage == 1);
    EXPECT_EQ(zero.parameters()[0].grad().defined(), stage > 1);
    zero.set_requires_gradient_sync(true);
    loss_of(zero.forward(input(2, 0))).backward();
    EXPECT_FALSE(model.scale.grad().defined());
    EXPECT_TRUE(zero.parameters()[0].grad().defined());
  }
}

TEST_F(ZeroOnOneRank, StepsACopyOfItsOwnInStages1And2) {
  for (int stage = 1; stage <= 2; ++stage) {
    Model model;
    const at::Tensor before = model.scale.detach().clone();
    Zero zero(model, group_, {.stage = stage});
    const at::NoGradGuard no_grad;
    zero.parameters()[0].add_(1);
    EXPECT_TRUE(at::equal(model.scale, before)) << "it is whole until the step is finished";
    zero.finish_step();
    EXPECT_TRUE(at::equal(model.scale, before + 1));
  }
}

TEST_F(ZeroOnOneRank, TrainsOnADevice) {
  for (int stage = 1; stage <= 3; ++stage) {
    Model plain;
    Model model;
    model.to(virtual_device(0));
    Zero zero(model, group_, {.stage = stage});
    loss_of(zero.forward(input(1, 0).to(virtual_device(0)))).backward();
    add_mean_gradients(plain, 1, 1);
    const std::string wrong =
        difference(zero, plain, [](const at::Tensor& tensor) { return gradient_of(tensor).cpu(); });
    EXPECT_EQ(wrong, "");
  }
}

TEST_F(ZeroOnOneRank, RefusesWhatItCannotPartition) {
  Model model;
  EXPECT_THROW(Zero(model, group_, {.stage = 0}), Error);
  EXPECT_THROW(Zero(model, group_, {.stage = 4}), Error);
  Model frozen;
  frozen.freeze();
  EXPECT_THROW(Zero(frozen, group_, {.stage = 1}), Error);
  for (int stage = 1; stage <= 3; ++stage) {
    Model mixed;
    mixed.parts[0]->to(at::kDouble);
    EXPECT_THROW(Zero(mixed, group_, {.stage = stage}), Error);
  }
}

}  // namespace
}  // namespace lockstep
