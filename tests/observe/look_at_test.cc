#include "harness/observe/look_at.h"

#include <ATen/ops/_neg_view.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/observe/digester.h"
#include "tests/observe/helpers.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LookAt, NamesEveryDtypeAsTorchDoes) {
  std::set<std::string> names;
  for (const at::ScalarType dtype : kDTypes) {
    const Observation observation = look(at::zeros({2, 3}, dtype));
    EXPECT_THAT(observation.not_comparable, IsEmpty());
    EXPECT_TRUE(parse<DType>(observation.dtype)) << *observation.dtype;
    names.insert(observation.dtype);
  }
  EXPECT_EQ(names.size(), Names<DType>::values.size());
}

TEST(LookAt, SaysWhereAWholeTensorLies) {
  const Observation observation = look(at::zeros({2, 3}));
  EXPECT_THAT(*observation.global_shape, ElementsAre(2, 3));
  EXPECT_THAT(*observation.local_shape, ElementsAre(2, 3));
  EXPECT_THAT(*observation.offset, ElementsAre(0, 0));
}

TEST(LookAt, SeesEveryFlippedBitOfEveryDtype) {
  for (const at::ScalarType dtype : kDTypes) {
    at::Tensor tensor = random_bits({3, 5}, dtype);
    const Observation before = look(tensor);
    std::set<Digest> seen{before.digest};
    for (std::size_t bit = 0; bit < tensor.nbytes() * 8; ++bit) {
      if (dtype == at::kBool && bit % 8 != 0) continue;  // other bits of a bool are never set
      flip(tensor, bit);
      EXPECT_TRUE(seen.insert(look(tensor).digest).second) << dtype_text(dtype) << ' ' << bit;
      flip(tensor, bit);
    }
    EXPECT_EQ(look(tensor), before);
  }
}

TEST(LookAt, TellsNegativeZeroFromZero) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    EXPECT_NE(look(at::full({3}, -0.0, dtype)).digest, look(at::zeros({3}, dtype)).digest);
  }
}

TEST(LookAt, KeepsThePayloadOfNaN) {
  at::Tensor tensor = at::full({3}, std::numeric_limits<float>::quiet_NaN());
  const Observation before = look(tensor);
  flip(tensor, 32);
  const Observation after = look(tensor);
  EXPECT_NE(after.digest, before.digest);
  EXPECT_EQ(after.statistics.non_finite, 3);
  EXPECT_EQ(bytes_of(tensor)[4], std::byte{1});
}

TEST(LookAt, SeesValuesAndNotTheirLayout) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor base = random_bits({4, 6}, dtype);
    for (const at::Tensor& view :
         {base.t(), base.slice(1, 1, 6, 2), base.slice(0, 1, 3), base.select(1, 2),
          base.unsqueeze(1).expand({4, 3, 6}), base.permute({1, 0}).slice(0, 0, 6, 3)}) {
      EXPECT_EQ(look(view), look(view.clone(at::MemoryFormat::Contiguous))) << dtype_text(dtype);
    }
    EXPECT_NE(look(base.t()).digest, look(base).digest) << dtype_text(dtype);
  }
}

TEST(LookAt, TakesRowMajorBytes) {
  const at::Tensor tensor = at::arange(6, at::kByte).reshape({2, 3}).t();
  EXPECT_THAT(bytes_of(tensor), ElementsAre(std::byte{0}, std::byte{3}, std::byte{1}, std::byte{4},
                                            std::byte{2}, std::byte{5}));
}

TEST(LookAt, ResolvesConjugateAndNegativeViews) {
  for (const at::ScalarType dtype : {at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor base = random_bits({7}, dtype);
    const at::Tensor conjugate = base.conj();
    ASSERT_TRUE(conjugate.is_conj());
    EXPECT_EQ(look(conjugate), look(conjugate.resolve_conj()));
    EXPECT_NE(look(conjugate).digest, look(base).digest);
    EXPECT_TRUE(conjugate.is_conj());

    const at::Tensor real = random_bits({7}, c10::toRealValueType(dtype));
    const at::Tensor negative = at::_neg_view(real);
    ASSERT_TRUE(negative.is_neg());
    EXPECT_EQ(look(negative), look(negative.resolve_neg()));
    EXPECT_NE(look(negative).digest, look(real).digest);
  }
}

TEST(LookAt, SeesEmptyAndZeroDimensionalTensors) {
  const Observation empty = look(at::zeros({2, 0, 3}));
  EXPECT_THAT(empty.not_comparable, IsEmpty());
  EXPECT_THAT(*empty.local_shape, ElementsAre(2, 0, 3));
  EXPECT_EQ(empty.digest, Digest{});
  EXPECT_THAT(to_text(empty.statistics.minimum), IsEmpty());

  std::vector<std::byte> bytes;
  const Observation scalar = look_at(at::full({}, 1.5), std::nullopt, &bytes);
  EXPECT_THAT(scalar.not_comparable, IsEmpty());
  EXPECT_THAT(scalar.global_shape, IsEmpty());
  EXPECT_EQ(scalar.digest, look(at::full({1}, 1.5)).digest);
  EXPECT_EQ(to_text(scalar.statistics.minimum), "1.5");
  EXPECT_EQ(bytes.size(), 4U);
}

TEST(LookAt, LeavesTheTensorAsItWas) {
  const at::Tensor leaf = at::arange(6, at::kFloat).requires_grad_();
  const at::Tensor tensor = leaf.mul(2).reshape({2, 3}).t();
  tensor.sum().backward({}, /*retain_graph=*/true);
  const auto versions = std::pair(leaf._version(), tensor._version());
  const auto grad_fn = tensor.grad_fn();
  const void* const data = tensor.const_data_ptr();
  const at::Tensor gradient = leaf.grad().clone();
  look(tensor);
  look(leaf);
  EXPECT_EQ(std::pair(leaf._version(), tensor._version()), versions);
  EXPECT_EQ(tensor.grad_fn(), grad_fn);
  EXPECT_EQ(tensor.const_data_ptr(), data);
  EXPECT_THAT(tensor.strides().vec(), ElementsAre(1, 3));
  EXPECT_TRUE(tensor.requires_grad());
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_TRUE(at::equal(leaf.grad(), gradient));
  EXPECT_TRUE(at::equal(leaf.detach(), at::arange(6, at::kFloat)));
  tensor.sum().backward();  // the graph is intact
}

TEST(LookAt, SaysWhatIsNotComparable) {
  EXPECT_EQ(look(at::Tensor()).not_comparable, "undefined");
  const at::Tensor dense = at::full({2, 2}, 1.0);
  EXPECT_EQ(look(dense.to_sparse()).not_comparable, "Sparse layout");
  EXPECT_EQ(look(dense.to_sparse_csr()).not_comparable, "SparseCsr layout");
  EXPECT_EQ(look(dense.to_sparse_csc()).not_comparable, "SparseCsc layout");
  EXPECT_EQ(look(dense.to_sparse_bsr({1, 1})).not_comparable, "SparseBsr layout");
  EXPECT_EQ(look(dense.to_mkldnn()).not_comparable, "Mkldnn layout");
  EXPECT_EQ(look(at::empty({2, 2}, at::TensorOptions(at::kMeta))).not_comparable, "a meta tensor");
  EXPECT_EQ(look(at::quantize_per_tensor(dense, 0.5, 3, at::kQUInt8)).not_comparable,
            "quantized dtype quint8");
  for (const at::ScalarType dtype :
       {at::kUInt16, at::kUInt32, at::kUInt64, at::kComplexHalf, at::kFloat4_e2m1fn_x2}) {
    EXPECT_EQ(look(at::empty({2, 2}, dtype)).not_comparable, "dtype " + dtype_text(dtype));
  }
}

TEST(LookAt, SaysThatAStorageIsFreed) {
  const at::Tensor tensor = at::full({4}, 1.0);
  tensor.storage().unsafeGetStorageImpl()->set_nbytes(0);
  EXPECT_EQ(look(tensor).not_comparable, "its storage is freed");
}

TEST(LookAt, TellsShapeAndDtypeOfWhatIsNotComparable) {
  std::vector<std::byte> bytes{std::byte{7}};
  const Observation sparse = look_at(at::full({2, 2}, 1.0).to_sparse(), std::nullopt, &bytes);
  EXPECT_EQ(sparse.dtype, "float32");
  EXPECT_THAT(*sparse.local_shape, ElementsAre(2, 2));
  EXPECT_EQ(sparse.digest, Digest{});
  EXPECT_EQ(bytes.size(), 1U);
  EXPECT_THAT(look(at::Tensor()).dtype, IsEmpty());
  EXPECT_THAT(look(at::Tensor()).local_shape, IsEmpty());
}

/// Cuts `whole` along `dimension` after the indices `cuts`.
std::vector<std::pair<at::Tensor, Shard>> shards_of(const at::Tensor& whole, std::int64_t dimension,
                                                    std::vector<std::int64_t> cuts) {
  cuts.push_back(whole.size(dimension));
  std::vector<std::pair<at::Tensor, Shard>> shards;
  std::int64_t begin = 0;
  for (const std::int64_t end : cuts) {
    Shard shard{whole.sizes().vec(), std::vector<std::int64_t>(whole.dim(), 0)};
    shard.offset[dimension] = begin;
    shards.emplace_back(whole.slice(dimension, begin, end), shard);
    begin = end;
  }
  return shards;
}

TEST(LookAt, GivesShardsThatSumToTheWhole) {
  for (const at::ScalarType dtype : kDTypes) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{7}, {5, 7}, {3, 5, 7}}) {
      const at::Tensor whole = random_bits(shape, dtype);
      for (std::int64_t dimension = 0; dimension < whole.dim(); ++dimension) {
        for (const std::vector<std::int64_t>& cuts :
             {std::vector<std::int64_t>{1}, {2}, {1, 2}, {0, 1}, {2, 2}}) {
          Digest sum;
          for (const auto& [part, shard] : shards_of(whole, dimension, cuts)) {
            sum += look(part, shard).digest;
          }
          EXPECT_EQ(sum, look(whole).digest)
              << dtype_text(dtype) << ", dimension " << dimension << " of " << shape.size();
        }
      }
    }
  }
}

TEST(LookAt, GivesTilesThatSumToTheWhole) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor whole = random_bits({3, 5, 7}, dtype);
    Digest sum;
    for (const auto& [slab, slab_shard] : shards_of(whole, 1, {2})) {
      for (const auto& [tile, tile_shard] : shards_of(slab, 2, {3, 4})) {
        Shard shard{whole.sizes().vec(), slab_shard.offset};
        shard.offset[2] = tile_shard.offset[2];
        sum += look(tile, shard).digest;
      }
    }
    EXPECT_EQ(sum, look(whole).digest) << dtype_text(dtype);
  }
}

TEST(LookAt, SeesTheShardAtItsPlace) {
  const at::Tensor part = random_bits({2, 3}, at::kFloat);
  const Observation first = look(part, Shard{{4, 3}, {0, 0}});
  const Observation second = look(part, Shard{{4, 3}, {2, 0}});
  EXPECT_NE(first.digest, second.digest);
  EXPECT_THAT(*second.global_shape, ElementsAre(4, 3));
  EXPECT_THAT(*second.offset, ElementsAre(2, 0));
  EXPECT_THAT(*second.local_shape, ElementsAre(2, 3));
}

TEST(LookAt, RefusesAShardThatDoesNotFit) {
  const at::Tensor part = at::zeros({2, 3});
  for (const Shard& shard : {Shard{{4, 3}, {3, 0}}, Shard{{4, 3}, {-1, 0}}, Shard{{4, 2}, {0, 0}},
                             Shard{{4}, {0}}, Shard{{4, 3}, {0}}, Shard{{4, 3}, {0, 0, 0}}}) {
    EXPECT_THAT(error_of(Error::Kind::internal, [&] { look(part, shard); }),
                HasSubstr("does not fit the global shape"));
  }
  EXPECT_THAT(error_of(Error::Kind::internal,
                       [&] {
                         look(part, Shard{{4, 3}, {3, 0}});
                       }),
              HasSubstr("shape [2, 3] at offset [3, 0] does not fit the global shape [4, 3]"));
}

/// Results for `tensors` in one call, with their bytes.
std::vector<std::pair<Observation, std::vector<std::byte>>> digest_at_once(const Tensors& tensors) {
  std::vector<Observation> rows;
  for (const at::Tensor& tensor : tensors) rows.push_back(describe(tensor, std::nullopt));
  std::vector<DigestTask> tasks;
  for (std::size_t i = 0; i < rows.size(); ++i) tasks.push_back({tensors[i], &rows[i], true});
  CpuDigester().digest(tasks);
  std::vector<std::pair<Observation, std::vector<std::byte>>> all;
  for (DigestTask& task : tasks) all.emplace_back(*task.row, task.bytes);
  return all;
}

TEST(CpuDigester, GivesEachOfManyViewsWhatItsContiguousCopyAloneGives) {
  const at::Tensor base = random_bits({4, 6}, at::kFloat);
  const at::Tensor complex = random_bits({7}, at::kComplexFloat);
  const Tensors tensors{base,
                        base.t(),
                        base.slice(1, 1, 6, 2),
                        base.unsqueeze(1).expand({4, 3, 6}),
                        random_bits({5, 3}, at::kBFloat16).t(),
                        complex.conj(),
                        at::_neg_view(base),
                        at::zeros({2, 0, 3})};
  const auto digested = digest_at_once(tensors);
  ASSERT_EQ(digested.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor copy =
        tensors[i].resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
    EXPECT_EQ(digested[i].first, look(copy)) << i;
    EXPECT_EQ(digested[i].second, bytes_of(copy)) << i;
  }
}

TEST(CpuDigester, CopiesNoBytesThatNobodyWants) {
  const at::Tensor tensor = at::zeros({4});
  Observation row = describe(tensor, std::nullopt);
  DigestTask task{tensor, &row};
  CpuDigester().digest({&task, 1});
  EXPECT_EQ(row, look(tensor));
  EXPECT_EQ(task.bytes.capacity(), 0U);
}

}  // namespace
}  // namespace lockstep
