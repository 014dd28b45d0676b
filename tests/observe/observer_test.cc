#include "harness/observe/observer.h"

#include <ATen/ops/_neg_view.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/train/nn/module.h"
#include "reports/base/error.h"
#include "tests/full_disk.h"
#include "tests/record/whole_journal.h"
#include "tests/temporary_folder.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<at::ScalarType> kDTypes{
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,         at::kShort,
    at::kInt,   at::kLong,   at::kByte, at::kBool,     at::kComplexFloat, at::kComplexDouble};

/// A tensor of random bytes: every bit pattern may occur, NaN among them. A bool is 0 or 1.
at::Tensor random_bits(const std::vector<std::int64_t>& shape, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(shape, dtype);
  const at::Tensor random =
      at::randint(dtype == at::kBool ? 2 : 256, {static_cast<std::int64_t>(tensor.nbytes())},
                  cpu_generator(11), at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), random.const_data_ptr(), tensor.nbytes());
  return tensor;
}

Observation look(const at::Tensor& tensor, const std::optional<Shard>& shard = std::nullopt) {
  return look_at(tensor, shard, nullptr);
}

void flip(at::Tensor& tensor, std::size_t bit) {
  static_cast<std::uint8_t*>(tensor.mutable_data_ptr())[bit / 8] ^= 1U << bit % 8;
}

std::string dtype_text(at::ScalarType dtype) { return c10::getDtypeNames(dtype).first; }

TEST(LookAt, NamesEveryDtypeAsTorchDoes) {
  std::set<std::string> names;
  for (const at::ScalarType dtype : kDTypes) {
    const Observation observation = look(at::zeros({2, 3}, dtype));
    EXPECT_THAT(observation.not_comparable, IsEmpty());
    EXPECT_TRUE(parse<DType>(observation.dtype)) << observation.dtype;
    names.insert(observation.dtype);
  }
  EXPECT_EQ(names.size(), Names<DType>::values.size());
}

TEST(LookAt, SaysWhereAWholeTensorLies) {
  const Observation observation = look(at::zeros({2, 3}));
  EXPECT_THAT(observation.global_shape, ElementsAre(2, 3));
  EXPECT_THAT(observation.local_shape, ElementsAre(2, 3));
  EXPECT_THAT(observation.offset, ElementsAre(0, 0));
}

TEST(LookAt, SeesEveryFlippedBitOfEveryDtype) {
  for (const at::ScalarType dtype : kDTypes) {
    at::Tensor tensor = random_bits({3, 5}, dtype);
    const Observation before = look(tensor);
    std::set<Digest> seen{before.digest};
    for (std::size_t bit = 0; bit < tensor.nbytes() * 8; ++bit) {
      if (dtype == at::kBool && bit % 8 != 0) continue;  // no other bit of a bool is ever set
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
  EXPECT_THAT(empty.local_shape, ElementsAre(2, 0, 3));
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
  tensor.sum().backward();  // the graph is whole
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
  for (const at::ScalarType dtype : {at::kFloat8_e4m3fn, at::kUInt16, at::kUInt32, at::kUInt64,
                                     at::kComplexHalf, at::kFloat8_e5m2}) {
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
  EXPECT_THAT(sparse.local_shape, ElementsAre(2, 2));
  EXPECT_EQ(sparse.digest, Digest{});
  EXPECT_EQ(bytes.size(), 1U);
  EXPECT_THAT(look(at::Tensor()).dtype, IsEmpty());
  EXPECT_THAT(look(at::Tensor()).local_shape, IsEmpty());
}

/// Cuts `whole` along `dimension` behind the indices `cuts`.
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
  EXPECT_THAT(second.global_shape, ElementsAre(4, 3));
  EXPECT_THAT(second.offset, ElementsAre(2, 0));
  EXPECT_THAT(second.local_shape, ElementsAre(2, 3));
}

template <class Call>
std::string error_of(Error::Kind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
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

class ObserverTest : public ::testing::Test {
 protected:
  std::filesystem::path journal() const { return folder_.path() / "rank-0.csv"; }
  std::map<std::string, SnapshotTensor> kept(std::int64_t step) const {
    return read_safetensors(snapshot_file(folder_.path(), 0, step));
  }

  TemporaryFolder folder_;
};

TEST_F(ObserverTest, LeavesWhatItSawBitForBit) {
  std::vector<Observation> expected;
  {
    Observer observer(folder_.path(), 0);
    for (std::int64_t step = 1; step <= 2; ++step) {
      observer.begin_step(step);
      for (const at::ScalarType dtype : kDTypes) {
        const at::Tensor tensor = random_bits({3, 2, step}, dtype).transpose(0, 1);
        observer.observe(Phase::post_step, Kind::parameter, dtype_text(dtype), tensor);
        expected.push_back(look(tensor));
      }
    }
    observer.finish();
  }
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    expected[i].seq = static_cast<std::int64_t>(i);
    expected[i].step = i < kDTypes.size() ? 1 : 2;
    expected[i].phase = Phase::post_step;
    expected[i].name = expected[i].dtype;
    EXPECT_EQ(rows[i], expected[i]) << rows[i].name;

    const std::map<std::string, SnapshotTensor> values = kept(rows[i].step);
    const SnapshotTensor& value = values.at(snapshot_key(rows[i]));
    const at::Tensor tensor =
        random_bits({3, 2, rows[i].step}, kDTypes[i % kDTypes.size()]).transpose(0, 1);
    EXPECT_EQ(name(value.dtype), rows[i].dtype);
    EXPECT_THAT(value.shape, ElementsAre(2, 3, rows[i].step));
    EXPECT_EQ(value.bytes, bytes_of(tensor));
  }
}

TEST_F(ObserverTest, NamesExactlyTheTensorWithAPlantedFault) {
  for (const at::ScalarType dtype : kDTypes) {
    std::vector<std::vector<Observation>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const TemporaryFolder folder;
      Observer observer(folder.path(), rank);
      observer.begin_step(1);
      for (const char* const tensor_name : {"a", "b", "c"}) {
        at::Tensor tensor = random_bits({4, 4}, dtype);
        if (rank == 1 && tensor_name == std::string("b")) flip(tensor, 40);
        observer.observe(Phase::pre_step, Kind::gradient, tensor_name, tensor);
      }
      observer.finish();
      ranks.push_back(
          read_journal(folder.path() / ("rank-" + std::to_string(rank) + ".csv")).observations);
    }
    EXPECT_EQ(ranks[0][0], ranks[1][0]) << dtype_text(dtype);
    EXPECT_NE(ranks[0][1].digest, ranks[1][1].digest) << dtype_text(dtype);
    EXPECT_EQ(ranks[0][2], ranks[1][2]) << dtype_text(dtype);
  }
}

TEST_F(ObserverTest, NotesStepMicroBatchPhaseAndKind) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(3);
  observer.begin_micro_batch(2);
  observer.observe(Phase::post_backward, Kind::buffer, "mean", at::zeros({2}));
  observer.begin_step(4);
  observer.observe(Phase::pre_forward, Kind::loss, "loss", at::zeros({}));
  EXPECT_EQ(observer.step(), 4);
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(snapshot_key(rows[0]), "2/post_backward/buffer/mean");
  EXPECT_EQ(rows[0].step, 3);
  EXPECT_EQ(snapshot_key(rows[1]), "0/pre_forward/loss/loss");
  EXPECT_EQ(rows[1].seq, 1);
}

TEST_F(ObserverTest, NotesWhatIsNotComparableAndKeepsNoValue) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  observer.observe(Phase::pre_step, Kind::gradient, "w", at::Tensor());
  observer.observe(Phase::pre_step, Kind::buffer, "w", at::Tensor());
  observer.observe(Phase::pre_step, Kind::gradient, "s", at::full({2}, 1.0).to_sparse());
  observer.finish();
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].not_comparable, "undefined: no gradient");
  EXPECT_EQ(rows[1].not_comparable, "undefined");
  EXPECT_EQ(rows[2].not_comparable, "Sparse layout");
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
}

TEST_F(ObserverTest, KeepsAShardWithItsPlace) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  const at::Tensor part = random_bits({2, 3}, at::kBFloat16);
  observer.observe(Phase::post_step, Kind::parameter, "w", part, Shard{{2, 7}, {0, 3}});
  observer.finish();
  const Observation row = read_journal(journal()).observations.at(0);
  EXPECT_THAT(row.global_shape, ElementsAre(2, 7));
  EXPECT_THAT(row.offset, ElementsAre(0, 3));
  EXPECT_EQ(kept(1).at("0/post_step/parameter/w").bytes, bytes_of(part));
}

TEST_F(ObserverTest, KeepsTheValueOfTheMomentItLooked) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  at::Tensor tensor = at::zeros({1}, at::kByte);
  observer.observe(Phase::post_step, Kind::parameter, "w", tensor);
  tensor.fill_(9);
  observer.finish();
  EXPECT_THAT(kept(1).at("0/post_step/parameter/w").bytes, ElementsAre(std::byte{0}));
}

TEST_F(ObserverTest, WritesAStepWhenTheNextBegins) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  observer.observe(Phase::post_step, Kind::parameter, "w", at::zeros({2}));
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
  observer.begin_step(2);
  EXPECT_EQ(kept(1).size(), 1U);
}

TEST_F(ObserverTest, LosesNothingObservedAfterFinish) {
  {
    Observer observer(folder_.path(), 0);
    observer.begin_step(1);
    observer.observe(Phase::post_step, Kind::parameter, "a", at::zeros({2}));
    observer.finish();
    observer.observe(Phase::post_step, Kind::parameter, "b", at::zeros({2}));
  }
  EXPECT_EQ(kept(1).size(), 2U);
}

TEST_F(ObserverTest, RefusesTheSameTensorTwiceInAStep) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  const auto observe = [&] {
    observer.observe(Phase::post_step, Kind::parameter, "w", at::zeros({2}));
  };
  observe();
  EXPECT_THAT(error_of(Error::Kind::internal, observe),
              HasSubstr("'0/post_step/parameter/w' observed twice in step 1"));
  EXPECT_EQ(read_journal(journal()).observations.size(), 1U);
  observer.begin_micro_batch(1);
  observe();
  observer.begin_step(2);
  observe();
  EXPECT_EQ(read_journal(journal()).observations.size(), 3U);
}

TEST_F(ObserverTest, RefusesStepsThatDoNotCountUp) {
  Observer observer(folder_.path(), 0);
  EXPECT_THAT(error_of(Error::Kind::internal, [&] { observer.begin_step(0); }),
              HasSubstr("step 0 begun after step 0"));
  EXPECT_THAT(
      error_of(Error::Kind::internal,
               [&] { observer.observe(Phase::pre_forward, Kind::buffer, "w", at::zeros({1})); }),
      HasSubstr("before the first step"));
  observer.begin_step(2);
  EXPECT_THAT(error_of(Error::Kind::internal, [&] { observer.begin_step(2); }),
              HasSubstr("step 2 begun after step 2"));
}

TEST_F(ObserverTest, RefusesAFolderThatHoldsItsJournal) {
  { Observer observer(folder_.path(), 0); }
  EXPECT_THAT(error_of(Error::Kind::usage, [&] { Observer(folder_.path(), 0); }),
              HasSubstr("rank-0.csv"));
}

TEST_F(ObserverTest, SaysThatItsFolderVanished) {
  const std::filesystem::path inner = folder_.path() / "cell";
  std::filesystem::create_directory(inner);
  Observer observer(inner, 0);
  observer.begin_step(1);
  observer.observe(Phase::post_step, Kind::parameter, "w", at::zeros({2}));
  std::filesystem::remove_all(inner);
  EXPECT_THAT(error_of(Error::Kind::usage, [&] { observer.finish(); }),
              HasSubstr("rank-0.step-1.safetensors"));
}

TEST_F(ObserverTest, SaysThatTheDiskIsFull) {
  Observer observer(folder_.path(), 0);
  observer.begin_step(1);
  observer.observe(Phase::post_step, Kind::parameter, "w", at::zeros({10'000}));
  std::string of_values;
  std::string of_journal;
  {
    const FullDisk full(4'096);
    of_values = error_of(Error::Kind::usage, [&] { observer.finish(); });
    of_journal = error_of(Error::Kind::usage, [&] {
      for (int i = 0; i < 100; ++i) {
        observer.observe(Phase::post_step, Kind::parameter, std::to_string(i), at::zeros({2}));
      }
    });
  }
  EXPECT_THAT(of_values, HasSubstr("rank-0.step-1.safetensors"));
  EXPECT_THAT(of_journal, HasSubstr("rank-0.csv"));
  observer.finish();  // there is room again, and nothing was dropped
  EXPECT_EQ(kept(1).count("0/post_step/parameter/w"), 1U);
}

}  // namespace
}  // namespace lockstep
