#include "harness/observe/observer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/full_disk.h"
#include "tests/observe/helpers.h"
#include "tests/record/whole_journal.h"
#include "tests/temporary_folder.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
