#include "harness/train/sharded/flat_shard.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/store_service.h"
#include "harness/launch/launch.h"
#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/sharded/flat_parameter.h"
#include "harness/train/sharded/fully_shard.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kWidth = 5;

/// An MLP and a parameter of its own.
struct Layer : Module {
  explicit Layer(const at::Generator& generator)
      : mlp(register_module("mlp", std::make_shared<SwiGlu>(kWidth, 7, generator))),
        scale(register_parameter("scale", at::ones({1}))) {}

  at::Tensor forward(const at::Tensor& input) override { return input + (*mlp)(input)*scale; }

  std::shared_ptr<SwiGlu> mlp;
  at::Tensor scale;
};

struct Model : Module {
  Model()
      : embedding(register_module("embedding", std::make_shared<Linear>(3, kWidth, generator))),
        first(register_module("first", std::make_shared<Layer>(generator))),
        second(register_module("second", std::make_shared<Layer>(generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return (*second)((*first)((*embedding)(input)));
  }

  at::Generator generator = cpu_generator(3);
  std::shared_ptr<Linear> embedding;
  std::shared_ptr<Layer> first, second;
};

enum class Level { root, mlp, layer, both };
constexpr Level kLevels[] = {Level::root, Level::mlp, Level::layer, Level::both};
constexpr FlatStrategy kStrategies[] = {FlatStrategy::full_shard, FlatStrategy::shard_grad_op,
                                        FlatStrategy::no_shard};

std::vector<Module*> wrapped_of(const Model& model, Level level) {
  std::vector<Module*> wrapped;
  for (const auto& layer : {model.first, model.second}) {
    if (level == Level::mlp || level == Level::both) wrapped.push_back(layer->mlp.get());
    if (level == Level::layer || level == Level::both) wrapped.push_back(layer.get());
  }
  return wrapped;
}

at::Tensor input(int rank, std::int64_t step = 0) {
  return at::randn({4, 3}, cpu_generator(static_cast<std::uint64_t>(100 * step + rank)),
                   at::kFloat);
}

at::Tensor loss(const at::Tensor& output) { return output.pow(2).mean(); }

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

/// Adds the mean over ranks of the gradients of a step to `.grad`.
void add_mean_gradients(Module& plain, int ranks, std::int64_t step = 0) {
  for (int rank = 0; rank < ranks; ++rank) (loss(plain(input(rank, step))) / ranks).backward();
}

/// The elements of `whole` [any shape] that the shard covers.
at::Tensor part_of(const at::Tensor& whole, const NamedShard& shard) {
  if (shard.place.global_shape != std::vector<std::int64_t>{whole.numel()}) return whole;
  return whole.reshape({-1}).narrow(0, shard.place.offset.front(), shard.tensor.numel());
}

/// The first wrong tensor, in words; empty if all are right.
std::string difference(const std::vector<NamedShard>& shards, const std::vector<at::Tensor>& right,
                       const std::function<at::Tensor(const at::Tensor& shard)>& value_of) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const at::Tensor value = value_of(shards[i].tensor);
    if (value.defined() != right.at(i).defined()) return shards[i].name + " has one, or has none";
    if (!value.defined()) continue;
    const at::Tensor expected = part_of(right[i], shards[i]);
    if (!at::allclose(value, expected, 1e-5, 1e-7)) return shards[i].name;
  }
  return "";
}

at::Tensor gradient_of(const at::Tensor& tensor) { return tensor.grad(); }
at::Tensor value_of(const at::Tensor& tensor) { return tensor.detach(); }

std::string gradient_difference(const FlatShard& sharded, const Module& plain) {
  std::vector<at::Tensor> right;
  for (const at::Tensor& parameter : plain.parameters()) right.push_back(parameter.grad());
  return difference(sharded.shards(), right, gradient_of);
}

std::string parameter_difference(const FlatShard& sharded, const Module& plain) {
  return difference(sharded.shards(), copies_of(plain.parameters()), value_of);
}

/// The error of `run`; empty: none.
std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

bool has_data(const Module& module) { return module.parameters().front().storage().nbytes() > 0; }

/// Ranks with a process group. Their process must have one thread before it forks, so this one runs
/// no torch operation.
class FlatShardRanks : public testing::Test {
 protected:
  /// The first complaint of any of `ranks` ranks; empty if there is none.
  std::string run(int ranks, const std::function<std::string(ProcessGroup& group)>& body) {
    LaunchOptions options;
    options.ranks = ranks;
    options.folder = folder_.path() / std::to_string(++launches_);
    options.host = serve_store;
    std::filesystem::create_directory(options.folder);
    const auto exits = launch_ranks(options, [&](const RankPlacement& placement) {
      const auto file = options.folder / ("collectives-" + std::to_string(placement.rank));
      at::set_num_threads(1);
      CollectiveLog log(file, placement.rank);
      ProcessGroup group(placement, {}, log);
      const std::string complaint = body(group);
      std::fputs(complaint.c_str(), stderr);
      return complaint.empty() ? 0 : 1;
    });
    for (const RankExit& end : exits) {
      if (end.kind == ExitKind::finished && end.code == 0) continue;
      return "rank " + std::to_string(end.rank) + ": " + exit_in_words(end) + ": " +
             end.last_output;
    }
    return "";
  }

  std::string run_all(int ranks,
                      const std::function<std::string(ProcessGroup& group, FlatStrategy strategy,
                                                      Level level)>& body) {
    return run(ranks, [&](ProcessGroup& group) -> std::string {
      for (const FlatStrategy strategy : kStrategies) {
        for (const Level level : kLevels) {
          const std::string complaint = body(group, strategy, level);
          if (complaint.empty()) continue;
          return complaint + " with strategy " + std::to_string(static_cast<int>(strategy)) +
                 " at level " + std::to_string(static_cast<int>(level));
        }
      }
      return "";
    });
  }

  TemporaryFolder folder_;
  int launches_ = 0;
};

TEST_F(FlatShardRanks, ListFlatParametersOnModulesThatAreWrapped) {
  const auto listed = [](ProcessGroup& group, Level level) {
    Model model;
    const FlatShard sharded(model, wrapped_of(model, level), group);
    const auto count = [&](const Module& module) {
      return std::to_string(sharded.listed_parameters(module).size());
    };
    return count(*model.first->mlp) + count(*model.first) + count(model);
  };
  EXPECT_EQ(run(2,
                [&](ProcessGroup& group) {
                  const std::string all =
                      listed(group, Level::mlp) + " " + listed(group, Level::layer) + " " +
                      listed(group, Level::both) + " " + listed(group, Level::root);
                  return all == "113 013 125 001" ? "" : all;
                }),
            "");
}

TEST_F(FlatShardRanks, PiecesCoverEveryParameterOnce) {
  for (const int ranks : {1, 2, 3, 4}) {
    EXPECT_EQ(run_all(ranks,
                      [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                        Model model;
                        const std::vector<at::Tensor> before = copies_of(model.parameters());
                        FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                        const bool is_whole = sharded.keeps_parameters_whole();
                        if (is_whole != (group.size() == 1 || strategy == FlatStrategy::no_shard)) {
                          return std::string("is whole, or is not");
                        }
                        std::vector<NamedShard> shards = sharded.shards();
                        if (shards.size() != before.size()) return std::string("others");
                        for (std::size_t i = 0; i < shards.size(); ++i) {
                          at::Tensor covered = at::zeros({before[i].numel()});
                          part_of(covered, shards[i]).add_(1);
                          group.all_reduce(covered, ReduceOp::sum);
                          if (!at::equal(covered, at::ones({covered.numel()}) *
                                                      (is_whole ? group.size() : 1))) {
                            return shards[i].name;
                          }
                        }
                        return difference(shards, before, value_of);
                      }),
              "");
  }
}

TEST_F(FlatShardRanks, GradientsAreTheMeanOverTheRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    EXPECT_EQ(run_all(ranks,
                      [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                        Model plain;
                        Model model;
                        FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                        loss(sharded.forward(input(group.rank()))).backward();
                        add_mean_gradients(plain, group.size());
                        return gradient_difference(sharded, plain);
                      }),
              "");
  }
}

TEST_F(FlatShardRanks, TrainsAsTheUnshardedModel) {
  for (const char* name : {"sgd", "adamw"}) {
    EXPECT_EQ(run_all(3,
                      [&](ProcessGroup& group, FlatStrategy strategy, Level level) {
                        Model plain;
                        Model model;
                        FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                        const auto plain_optimizer = make_optimizer(name, plain.parameters(), 0.05);
                        const auto optimizer = make_optimizer(name, sharded.parameters(), 0.05);
                        for (std::int64_t step = 1; step <= 3; ++step) {
                          plain.zero_grad();
                          sharded.zero_grad();
                          add_mean_gradients(plain, group.size(), step);
                          loss(sharded.forward(input(group.rank(), step))).backward();
                          plain_optimizer->step();
                          optimizer->step();
                        }
                        return parameter_difference(sharded, plain);
                      }),
              "");
  }
}

/// Which of three micro-batches are reduced at once.
TEST_F(FlatShardRanks, AddsUpGradientsOfMicroBatches) {
  const std::vector<std::vector<bool>> ways{
      {true, true, true}, {false, false, true}, {true, false, true}, {false, true, true}};
  for (const auto& reduces : ways) {
    EXPECT_EQ(run_all(2,
                      [&](ProcessGroup& group, FlatStrategy strategy, Level level) {
                        Model plain;
                        Model model;
                        FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                        for (std::size_t batch = 0; batch < reduces.size(); ++batch) {
                          const auto step = static_cast<std::int64_t>(batch);
                          add_mean_gradients(plain, group.size(), step);
                          sharded.set_requires_gradient_sync(reduces[batch]);
                          loss(sharded.forward(input(group.rank(), step))).backward();
                        }
                        return gradient_difference(sharded, plain);
                      }),
              "");
  }
}

TEST_F(FlatShardRanks, WithoutSyncGradientsStayWhereTheyAre) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  Model model;
                  Model plain;
                  FlatShard sharded(model, {}, group);
                  sharded.set_requires_gradient_sync(false);
                  loss(sharded.forward(input(group.rank()))).backward();
                  if (sharded.parameters()[0].grad().defined()) return "reduced";
                  sharded.zero_grad();
                  sharded.set_requires_gradient_sync(true);
                  loss(sharded.forward(input(group.rank(), 1))).backward();
                  add_mean_gradients(plain, group.size(), 1);
                  return gradient_difference(sharded, plain);
                }),
            "");
}

TEST_F(FlatShardRanks, ZeroGradDropsWhatWasReduced) {
  EXPECT_EQ(run_all(2,
                    [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                      Model plain;
                      Model model;
                      FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                      loss(sharded.forward(input(group.rank()))).backward();
                      for (at::Tensor shard : sharded.parameters()) shard.mutable_grad().reset();
                      loss(sharded.forward(input(group.rank(), 1))).backward();
                      add_mean_gradients(plain, group.size(), 1);
                      return gradient_difference(sharded, plain);
                    }),
            "");
}

/// A flat parameter either has a gradient or not, so whole modules are frozen.
TEST_F(FlatShardRanks, FrozenModulesGetNoGradient) {
  EXPECT_EQ(run_all(2,
                    [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                      Model plain;
                      Model model;
                      if (level == Level::root) return std::string();
                      for (Model* frozen : {&plain, &model}) {
                        (level == Level::mlp ? static_cast<Module&>(*frozen->second->mlp)
                                             : *frozen->second)
                            .freeze();
                      }
                      FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                      loss(sharded.forward(input(group.rank()))).backward();
                      add_mean_gradients(plain, group.size());
                      if (strategy == FlatStrategy::no_shard) {
                        return gradient_difference(sharded, plain);
                      }
                      return has_data(*model.second->mlp) ? std::string("the frozen one is there")
                                                          : gradient_difference(sharded, plain);
                    }),
            "");
}

/// When backward reaches the module's input, not when it ends.
TEST_F(FlatShardRanks, ReleasesFrozenModulesInBackward) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  Model model;
                  model.second->freeze();
                  FlatShard sharded(model, {model.second.get()}, group);
                  bool is_there = true;
                  const auto body = [&](const std::vector<at::Tensor>& inputs) {
                    const at::Tensor hidden = (*model.embedding)(inputs[0]);
                    hidden.register_hook([&](const at::Tensor& /*gradient*/) {
                      is_there = has_data(*model.second->mlp);
                    });
                    return std::vector<at::Tensor>{(*model.second)((*model.first)(hidden))};
                  };
                  loss(sharded.forward({input(group.rank())}, body)[0]).backward();
                  return is_there ? "still there" : "";
                }),
            "");
}

/// Parameters released at the end of the forward, and at the end of backward.
TEST_F(FlatShardRanks, ReleasesByItsStrategy) {
  EXPECT_EQ(
      run_all(2,
              [](ProcessGroup& group, FlatStrategy strategy, Level level) -> std::string {
                Model model;
                FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                const bool is_kept = strategy == FlatStrategy::no_shard;
                const Module& part =
                    level == Level::layer ? static_cast<Module&>(*model.first) : *model.first->mlp;
                if (has_data(part) != is_kept) return "before forward";
                const at::Tensor output = sharded.forward(input(group.rank()));
                if (!has_data(*model.embedding)) return "the root's after forward";
                if (has_data(part) !=
                    (level == Level::root || strategy != FlatStrategy::full_shard)) {
                  return "after forward";
                }
                sharded.set_requires_gradient_sync(false);
                loss(output).backward();
                if (has_data(part) != (strategy != FlatStrategy::full_shard)) {
                  return "after a backward that does not reduce";
                }
                sharded.set_requires_gradient_sync(true);
                loss(sharded.forward(input(group.rank()))).backward();
                if (has_data(part) != is_kept) return "after backward";
                return has_data(*model.embedding) == is_kept ? "" : "the root's after backward";
              }),
      "");
}

/// The hook runs in the nested backward of each tile.
TEST_F(FlatShardRanks, TilesFindTheirParametersReleasedOnceTheyAreReduced) {
  EXPECT_EQ(run_all(2,
                    [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                      Model plain;
                      Model model;
                      for (const auto& layer : {model.first, model.second}) {
                        tile_calls(*layer->mlp, {.tiles = 2});
                      }
                      FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                      at::Tensor output = loss(sharded.forward(input(group.rank())));
                      const std::string error = error_of([&] { output.backward(); });
                      if (strategy == FlatStrategy::no_shard) {
                        add_mean_gradients(plain, group.size());
                        return error.empty() ? gradient_difference(sharded, plain) : error;
                      }
                      const bool is_refused =
                          error.find(fully_shard_error::kReleased) != std::string::npos ||
                          error.find(fully_shard_error::kViewOfReleased) != std::string::npos;
                      return is_refused ? std::string() : "refused in other words: " + error;
                    }),
            "");
}

/// Gradients of the tiles reach the flat parameter as one.
TEST_F(FlatShardRanks, TakesTilesWithExplicitInputs) {
  EXPECT_EQ(run_all(2,
                    [](ProcessGroup& group, FlatStrategy strategy, Level level) {
                      Model plain;
                      Model model;
                      for (const auto& layer : {model.first, model.second}) {
                        tile_calls(*layer->mlp,
                                   {.tiles = 2, .backward = TileBackward::explicit_inputs});
                      }
                      FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                      loss(sharded.forward(input(group.rank()))).backward();
                      add_mean_gradients(plain, group.size());
                      return gradient_difference(sharded, plain);
                    }),
            "");
}

/// Kept until the last tile: without a reduction of gradients, parameters are not released.
TEST_F(FlatShardRanks, TilesWithoutSyncKeepParametersOfShardGradOp) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  for (const Level level : kLevels) {
                    Model plain;
                    Model model;
                    for (const auto& layer : {model.first, model.second}) {
                      tile_calls(*layer->mlp, {.tiles = 2});
                    }
                    FlatShard sharded(model, wrapped_of(model, level), group,
                                      FlatStrategy::shard_grad_op);
                    sharded.set_requires_gradient_sync(false);
                    loss(sharded.forward(input(group.rank()))).backward();
                    if (!has_data(*model.embedding)) return "released";
                  }
                  return "";
                }),
            "");
}

/// A tile loop around the wrapped module: each tile gathers, and each nested backward reduces.
TEST_F(FlatShardRanks, TilesAroundAWrappedModuleReduceOneByOne) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  for (const FlatStrategy strategy : kStrategies) {
                    Model plain;
                    Model model;
                    FlatShard sharded(model, wrapped_of(model, Level::mlp), group, strategy);
                    for (const auto& layer : {model.first, model.second}) {
                      tile_calls(*layer->mlp, {.tiles = 2});
                    }
                    loss(sharded.forward(input(group.rank()))).backward();
                    add_mean_gradients(plain, group.size());
                    const std::string complaint = gradient_difference(sharded, plain);
                    if (!complaint.empty()) return complaint;
                  }
                  return "";
                }),
            "");
}

TEST_F(FlatShardRanks, RecomputesCheckpoints) {
  for (const bool is_reentrant : {true, false}) {
    EXPECT_EQ(run_all(2,
                      [&](ProcessGroup& group, FlatStrategy strategy, Level level) {
                        Model plain;
                        Model model;
                        FlatShard sharded(model, wrapped_of(model, level), group, strategy);
                        const auto body = [&](const std::vector<at::Tensor>& inputs) {
                          at::Tensor hidden = (*model.embedding)(inputs[0]);
                          const SegmentOfOne segment = [&](const at::Tensor& rows) {
                            return (*model.first)(rows);
                          };
                          hidden = is_reentrant ? checkpoint_reentrant(segment, hidden)
                                                : checkpoint(segment, hidden);
                          return std::vector<at::Tensor>{(*model.second)(hidden)};
                        };
                        const auto outputs = sharded.forward({input(group.rank())}, body);
                        loss(outputs[0]).backward();
                        add_mean_gradients(plain, group.size());
                        return gradient_difference(sharded, plain);
                      }),
              "");
  }
}

/// In a used module, parameters without a gradient get zeros; an unused module gets none.
TEST_F(FlatShardRanks, WhatIsNotUsedHasZerosOrNone) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  Model model;
                  FlatShard sharded(model, {model.second.get()}, group);
                  const auto body = [&](const std::vector<at::Tensor>& inputs) {
                    return std::vector<at::Tensor>{(*model.embedding)(inputs[0])};
                  };
                  loss(sharded.forward({input(group.rank())}, body)[0]).backward();
                  for (const NamedShard& shard : sharded.shards()) {
                    const at::Tensor& gradient = shard.tensor.grad();
                    if (shard.name.rfind("second", 0) == 0) {
                      if (gradient.defined()) return shard.name;
                    } else if (!gradient.defined()) {
                      return shard.name;
                    } else if (shard.name.rfind("first", 0) == 0 &&
                               gradient.count_nonzero().item<std::int64_t>() != 0) {
                      return shard.name;
                    }
                  }
                  return "";
                }),
            "");
}

/// The original's flaw: parameters kept after forward are gathered again only after a backward has
/// released them.
TEST_F(FlatShardRanks, ComputesWithOldParametersBehindAnEvaluation) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  for (const FlatStrategy strategy : kStrategies) {
                    Model model;
                    FlatShard sharded(model, {model.first.get()}, group, strategy);
                    const at::NoGradGuard no_grad;
                    const at::Tensor before = sharded.forward(input(0));
                    for (const auto& [name, shard, place] : sharded.shards()) {
                      if (name.rfind("first", 0) == 0) at::Tensor(shard).mul_(2);
                    }
                    const bool is_old = at::equal(sharded.forward(input(0)), before);
                    if (is_old != (strategy == FlatStrategy::shard_grad_op)) return "otherwise";
                  }
                  return "";
                }),
            "");
}

/// The original's flaw: hooks end with the first backward.
TEST_F(FlatShardRanks, OfOneGraphOnlyTheFirstBackwardReduces) {
  EXPECT_EQ(run(2,
                [](ProcessGroup& group) -> std::string {
                  Model plain;
                  Model model;
                  FlatShard sharded(model, {}, group, FlatStrategy::no_shard);
                  const at::Tensor output = loss(sharded.forward(input(group.rank())));
                  output.backward({}, /*retain_graph=*/true);
                  add_mean_gradients(plain, group.size());
                  output.backward();
                  loss(plain(input(group.rank()))).backward();
                  return gradient_difference(sharded, plain);
                }),
            "");
}

/// A world of one rank.
class FlatShardOnOneRank : public testing::Test {
 protected:
  TemporaryFolder folder_;
  CollectiveLog log_{collective_log_file(folder_.path(), 0), 0};
  ProcessGroup group_{RankPlacement(), GroupOptions(), log_};
};

TEST_F(FlatShardOnOneRank, ParametersOfTheModelAreViewsOfTheFlatOne) {
  const at::Generator generator = cpu_generator(3);
  Linear layer(3, 2, generator);
  const FlatParameter flat("", layer.named_parameters(), group_, /*keeps_whole=*/true);
  for (const at::Tensor& parameter : layer.parameters()) {
    EXPECT_FALSE(parameter.is_leaf());
    EXPECT_TRUE(parameter.requires_grad());
    EXPECT_TRUE(parameter.is_alias_of(flat.leaf()));
  }
  const at::Tensor rows = at::ones({4, 3});
  layer.forward(rows).sum().backward();
  ASSERT_TRUE(flat.has_gradient());
  EXPECT_TRUE(at::equal(flat.leaf().grad(), at::ones({8}) * 4));
  layer.forward(rows).sum().backward();
  EXPECT_TRUE(at::equal(flat.leaf().grad(), at::ones({8}) * 8)) << "the graph of the views stays";
}

TEST_F(FlatShardOnOneRank, NoticesAParameterThatChangesBetweenForwardAndBackward) {
  Model model;
  FlatShard sharded(model, {}, group_);
  const at::Tensor output = loss(sharded.forward(input(0)));
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor shard : sharded.parameters()) shard.add_(1);
  }
  EXPECT_THAT(error_of([&] { output.backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST_F(FlatShardOnOneRank, HasTheNamesAndTheOrderOfTheModel) {
  Model model;
  const std::vector<NamedTensor> before = model.named_parameters();
  const FlatShard sharded(model, {model.second.get(), model.first->mlp.get()}, group_);
  const std::vector<NamedShard> shards = sharded.shards();
  ASSERT_EQ(shards.size(), before.size());
  for (std::size_t i = 0; i < shards.size(); ++i) EXPECT_EQ(shards[i].name, before[i].name);
}

TEST_F(FlatShardOnOneRank, RefusesWhatItCannotFlatten) {
  Model model;
  Model other;
  EXPECT_THROW(FlatShard(model, {other.first.get()}, group_), Error);
  EXPECT_THROW(FlatShard(model, {&model}, group_), Error);
  const FlatShard sharded(model, {}, group_);
  EXPECT_THROW(FlatShard(model, {}, group_), Error) << "it is sharded already";
  other.first->freeze();
  EXPECT_THROW(FlatShard(other, {}, group_), Error) << "only some are frozen";
  Model mixed;
  mixed.first->to(at::kDouble);
  EXPECT_THROW(FlatShard(mixed, {}, group_), Error) << "of several dtypes";
}

}  // namespace
}  // namespace lockstep
