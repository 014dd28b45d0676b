#include "harness/train/sharded/sharded_parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/observe/look_at.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/fully_shard.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

at::Tensor parameter(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::randn(shape, cpu_generator(3), dtype).requires_grad_(true);
}

std::vector<ShardedParameter> on_all_ranks(const at::Tensor& whole, int world_size) {
  std::vector<ShardedParameter> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    const at::Tensor copy = whole.detach().clone().requires_grad_(whole.requires_grad());
    ranks.emplace_back("w", copy, rank, world_size, std::nullopt);
  }
  return ranks;
}

TEST(ShardedParameter, HoldsWhatChunkGivesItsRankOrNothing) {
  for (int rows = 1; rows <= 9; ++rows) {
    for (int world_size = 1; world_size <= 5; ++world_size) {
      const at::Tensor whole = parameter({rows, 3});
      const std::vector<at::Tensor> chunks = whole.chunk(world_size);
      const auto ranks = on_all_ranks(whole, world_size);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        const at::Tensor expected =
            rank < chunks.size() ? chunks[rank].detach() : whole.detach().narrow(0, 0, 0);
        EXPECT_TRUE(at::equal(ranks[rank].shard(), expected)) << rows << " rows, rank " << rank;
        EXPECT_EQ(ranks[rank].padded_elements(), chunks[0].numel());
      }
    }
  }
}

TEST(ShardedParameter, ShardsAddUpToTheDigestOfTheWhole) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (int rows = 1; rows <= 7; ++rows) {
      const at::Tensor whole = parameter({rows, 3}, dtype);
      Digest sum;
      for (const ShardedParameter& rank : on_all_ranks(whole, 3)) {
        sum += look_at(rank.shard(), rank.place(), nullptr).digest;
      }
      EXPECT_EQ(sum, look_at(whole, std::nullopt, nullptr).digest) << rows << " rows";
    }
  }
}

TEST(ShardedParameter, PaddingIsZero) {
  const auto ranks = on_all_ranks(parameter({4, 3}), 3);
  EXPECT_EQ(ranks[1].padded_shard().count_nonzero().item().toLong(), 6);
  EXPECT_EQ(ranks[2].padded_shard().count_nonzero().item().toLong(), 0);
}

TEST(ShardedParameter, ShardIsALeafThatRequiresAGradientWhereTheParameterDid) {
  EXPECT_TRUE(on_all_ranks(parameter({4}), 2)[0].shard().requires_grad());
  EXPECT_TRUE(on_all_ranks(parameter({4}), 2)[0].shard().is_leaf());
  EXPECT_FALSE(on_all_ranks(parameter({4}).detach(), 2)[0].shard().requires_grad());
}

TEST(ShardedParameter, WithoutItsMemoryIsRefusedInTorchsWords) {
  const at::Tensor weight = parameter({3, 3});
  ShardedParameter sharded("w", weight, 0, 2, std::nullopt);
  EXPECT_EQ(weight.sizes(), at::IntArrayRef({3, 3}));
  EXPECT_EQ(weight.storage().nbytes(), 0U);
  try {
    at::mm(weight, at::ones({3, 3}));
    FAIL() << "it was used";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(fully_shard_error::kReleased));
  }
}

TEST(ShardedParameter, HasThePaddedShardsOfAllRanksInItsBuffer) {
  const at::Tensor weight = parameter({4, 3});
  const at::Tensor before = weight.detach().clone();
  ShardedParameter sharded("w", weight, 0, 3, std::nullopt);
  sharded.allocate();
  EXPECT_EQ(sharded.buffer().numel(), 3 * 6);
  const at::NoGradGuard no_grad;
  sharded.buffer().narrow(0, 0, 12).copy_(before.view(-1));
  EXPECT_TRUE(at::equal(weight, before));
  sharded.release();
  EXPECT_EQ(weight.storage().nbytes(), 0U);
}

TEST(ShardedParameter, StaysTheLeafOfTheModelInItsComputeDtype) {
  const at::Tensor weight = parameter({4, 3});
  ShardedParameter sharded("w", weight, 0, 2, at::kBFloat16);
  EXPECT_TRUE(sharded.unsharded().is_same(weight));
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_EQ(weight.scalar_type(), at::kBFloat16);
  EXPECT_EQ(sharded.shard().scalar_type(), at::kFloat);
}

TEST(ShardedParameter, FillingItsMemoryIsNoChangeToAutograd) {
  const at::Tensor weight = parameter({4, 3});
  ShardedParameter sharded("w", weight, 0, 2, std::nullopt);
  const auto version = weight._version();
  sharded.allocate();
  const at::NoGradGuard no_grad;
  sharded.buffer().fill_(1);
  EXPECT_EQ(weight._version(), version);
}

TEST(ShardedParameter, AddsToTheGradientOfItsShard) {
  const auto gradient = [] { return at::ones({2, 3}); };
  ShardedParameter sharded("w", parameter({4, 3}), 0, 2, std::nullopt);
  sharded.accumulate(gradient());
  sharded.accumulate(gradient());
  EXPECT_TRUE(at::equal(sharded.shard().grad(), gradient() * 2));
}

TEST(ShardedParameter, WithoutRowsOrInAnotherOrderIsRefused) {
  for (const at::Tensor& wrong : {parameter({}), parameter({0, 3}), parameter({3, 4}).t()}) {
    EXPECT_THROW(ShardedParameter("w", wrong, 0, 2, std::nullopt), Error);
  }
}

}  // namespace
}  // namespace lockstep
