#include "harness/observe/observation_writer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
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
using ::testing::IsEmpty;

void observe(ObservationWriter& writer, Phase phase, Kind kind,
             const std::vector<NamedTensor>& tensors) {
  writer.observe(phase, kind, tensors);
}

class ObservationWriterTest : public ::testing::Test {
 protected:
  std::filesystem::path journal() const { return folder_.path() / "rank-0.csv"; }
  std::map<std::string, SnapshotTensor> kept(std::int64_t step) const {
    return read_safetensors(snapshot_file(folder_.path(), 0, step));
  }

  TemporaryFolder folder_;
};

TEST_F(ObservationWriterTest, LeavesWhatItSawBitForBit) {
  std::vector<Observation> expected;
  {
    ObservationWriter writer(folder_.path(), 0);
    for (std::int64_t step = 1; step <= 2; ++step) {
      writer.begin_step(step);
      for (const at::ScalarType dtype : kDTypes) {
        const at::Tensor tensor = random_bits({3, 2, step}, dtype).transpose(0, 1);
        observe(writer, Phase::post_step, Kind::parameter, {{dtype_text(dtype), tensor}});
        expected.push_back(look(tensor));
      }
    }
    writer.finish();
  }
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    expected[i].seq = static_cast<std::int64_t>(i);
    expected[i].step = i < kDTypes.size() ? 1 : 2;
    expected[i].phase = Phase::post_step;
    expected[i].name = expected[i].dtype;
    EXPECT_EQ(rows[i], expected[i]) << *rows[i].name;

    const std::map<std::string, SnapshotTensor> values = kept(rows[i].step);
    const SnapshotTensor& value = values.at(snapshot_key(rows[i]));
    const at::Tensor tensor =
        random_bits({3, 2, rows[i].step}, kDTypes[i % kDTypes.size()]).transpose(0, 1);
    EXPECT_EQ(name(value.dtype), rows[i].dtype);
    EXPECT_THAT(value.shape, ElementsAre(2, 3, rows[i].step));
    EXPECT_EQ(value.bytes, bytes_of(tensor));
  }
}

TEST_F(ObservationWriterTest, NamesExactlyTheTensorWithAPlantedFault) {
  for (const at::ScalarType dtype : kDTypes) {
    std::vector<std::vector<Observation>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const TemporaryFolder folder;
      ObservationWriter writer(folder.path(), rank);
      writer.begin_step(1);
      for (const char* const tensor_name : {"a", "b", "c"}) {
        at::Tensor tensor = random_bits({4, 4}, dtype);
        if (rank == 1 && tensor_name == std::string("b")) flip(tensor, 40);
        observe(writer, Phase::pre_step, Kind::gradient, {{tensor_name, tensor}});
      }
      writer.finish();
      ranks.push_back(
          read_journal(folder.path() / ("rank-" + std::to_string(rank) + ".csv")).observations);
    }
    EXPECT_EQ(ranks[0][0], ranks[1][0]) << dtype_text(dtype);
    EXPECT_NE(ranks[0][1].digest, ranks[1][1].digest) << dtype_text(dtype);
    EXPECT_EQ(ranks[0][2], ranks[1][2]) << dtype_text(dtype);
  }
}

TEST_F(ObservationWriterTest, NotesStepMicroBatchPhaseAndKind) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(3);
  writer.begin_micro_batch(2);
  observe(writer, Phase::post_backward, Kind::buffer, {{"mean", at::zeros({2})}});
  writer.begin_step(4);
  observe(writer, Phase::pre_forward, Kind::loss, {{"loss", at::zeros({})}});
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(snapshot_key(rows[0]), "2/post_backward/buffer/mean");
  EXPECT_EQ(rows[0].step, 3);
  EXPECT_EQ(snapshot_key(rows[1]), "0/pre_forward/loss/loss");
  EXPECT_EQ(rows[1].seq, 1);
}

TEST_F(ObservationWriterTest, NotesWhatIsNotComparableAndKeepsNoValue) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  observe(writer, Phase::pre_step, Kind::gradient, {{"w", at::Tensor()}});
  observe(writer, Phase::pre_step, Kind::buffer, {{"w", at::Tensor()}});
  observe(writer, Phase::pre_step, Kind::gradient, {{"s", at::full({2}, 1.0).to_sparse()}});
  writer.finish();
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].not_comparable, "undefined: no gradient");
  EXPECT_EQ(rows[1].not_comparable, "undefined");
  EXPECT_EQ(rows[2].not_comparable, "Sparse layout");
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
}

TEST_F(ObservationWriterTest, KeepsAShardWithItsPlace) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  const at::Tensor part = random_bits({2, 3}, at::kBFloat16);
  observe(writer, Phase::post_step, Kind::parameter, {{"w", part, Shard{{2, 7}, {0, 3}}}});
  writer.finish();
  const Observation row = read_journal(journal()).observations.at(0);
  EXPECT_THAT(*row.global_shape, ElementsAre(2, 7));
  EXPECT_THAT(*row.offset, ElementsAre(0, 3));
  EXPECT_EQ(kept(1).at("0/post_step/parameter/w").bytes, bytes_of(part));
}

TEST_F(ObservationWriterTest, KeepsTheValueOfTheMomentItLooked) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  at::Tensor tensor = at::zeros({1}, at::kByte);
  observe(writer, Phase::post_step, Kind::parameter, {{"w", tensor}});
  tensor.fill_(9);
  writer.finish();
  EXPECT_THAT(kept(1).at("0/post_step/parameter/w").bytes, ElementsAre(std::byte{0}));
}

TEST_F(ObservationWriterTest, WritesAStepWhenTheNextBegins) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  observe(writer, Phase::post_step, Kind::parameter, {{"w", at::zeros({2})}});
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
  writer.begin_step(2);
  EXPECT_EQ(kept(1).size(), 1U);
}

TEST_F(ObservationWriterTest, LosesNothingObservedAfterFinish) {
  {
    ObservationWriter writer(folder_.path(), 0);
    writer.begin_step(1);
    observe(writer, Phase::post_step, Kind::parameter, {{"a", at::zeros({2})}});
    writer.finish();
    observe(writer, Phase::post_step, Kind::parameter, {{"b", at::zeros({2})}});
  }
  EXPECT_EQ(kept(1).size(), 2U);
}

TEST_F(ObservationWriterTest, RefusesTheSameTensorTwiceInAStep) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  const auto observe_w = [&] {
    observe(writer, Phase::post_step, Kind::parameter, {{"w", at::zeros({2})}});
  };
  observe_w();
  EXPECT_THAT(error_of(Error::Kind::internal, observe_w),
              HasSubstr("'0/post_step/parameter/w' observed twice in step 1"));
  EXPECT_EQ(read_journal(journal()).observations.size(), 1U);
  writer.begin_micro_batch(1);
  observe_w();
  writer.begin_step(2);
  observe_w();
  EXPECT_EQ(read_journal(journal()).observations.size(), 3U);
}

TEST_F(ObservationWriterTest, RefusesStepsThatDoNotCountUp) {
  ObservationWriter writer(folder_.path(), 0);
  EXPECT_THAT(error_of(Error::Kind::internal, [&] { writer.begin_step(0); }),
              HasSubstr("step 0 begun after step 0"));
  EXPECT_THAT(error_of(Error::Kind::internal,
                       [&] {
                         observe(writer, Phase::pre_forward, Kind::buffer, {{"w", at::zeros({1})}});
                       }),
              HasSubstr("before the first step"));
  writer.begin_step(2);
  EXPECT_THAT(error_of(Error::Kind::internal, [&] { writer.begin_step(2); }),
              HasSubstr("step 2 begun after step 2"));
}

TEST_F(ObservationWriterTest, RefusesAFolderThatHoldsItsJournal) {
  { ObservationWriter writer(folder_.path(), 0); }
  EXPECT_THAT(error_of(Error::Kind::usage, [&] { ObservationWriter(folder_.path(), 0); }),
              HasSubstr("rank-0.csv"));
}

TEST_F(ObservationWriterTest, SaysThatItsFolderVanished) {
  const std::filesystem::path inner = folder_.path() / "cell";
  std::filesystem::create_directory(inner);
  ObservationWriter writer(inner, 0);
  writer.begin_step(1);
  observe(writer, Phase::post_step, Kind::parameter, {{"w", at::zeros({2})}});
  std::filesystem::remove_all(inner);
  EXPECT_THAT(error_of(Error::Kind::usage, [&] { writer.finish(); }),
              HasSubstr("rank-0.step-1.safetensors"));
}

TEST_F(ObservationWriterTest, SaysThatTheDiskIsFull) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  observe(writer, Phase::post_step, Kind::parameter, {{"w", at::zeros({10'000})}});
  std::string of_values;
  std::string of_journal;
  {
    const FullDisk full(4'096);
    of_values = error_of(Error::Kind::usage, [&] { writer.finish(); });
    of_journal = error_of(Error::Kind::usage, [&] {
      for (int i = 0; i < 100; ++i) {
        observe(writer, Phase::post_step, Kind::parameter, {{std::to_string(i), at::zeros({2})}});
      }
    });
  }
  EXPECT_THAT(of_values, HasSubstr("rank-0.step-1.safetensors"));
  EXPECT_THAT(of_journal, HasSubstr("rank-0.csv"));
  writer.finish();  // there is space again, and nothing was dropped
  EXPECT_EQ(kept(1).count("0/post_step/parameter/w"), 1U);
}

TEST_F(ObservationWriterTest, NotesTheTensorsOfACallInTheirOrder) {
  const at::Tensor part = random_bits({2, 3}, at::kFloat);
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  observe(writer, Phase::pre_step, Kind::gradient,
          {{"z", part},
           {"a", at::Tensor()},
           {"m", part, Shard{{4, 3}, {2, 0}}, "rank 0"},
           {"b", part.to_sparse()}});
  observe(writer, Phase::pre_step, Kind::gradient, {});
  EXPECT_EQ(writer.rows(), 4);
  const std::vector<Observation> rows = read_journal(journal()).observations;
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "z");
  EXPECT_EQ(rows[0].digest, look(part).digest);
  EXPECT_EQ(rows[1].name, "a");
  EXPECT_EQ(rows[1].not_comparable, "undefined: no gradient");
  EXPECT_EQ(rows[2].name, "m");
  EXPECT_EQ(rows[2].digest, look(part, Shard{{4, 3}, {2, 0}}).digest);
  EXPECT_EQ(rows[2].replica_group, "rank 0");
  EXPECT_EQ(rows[3].name, "b");
  EXPECT_EQ(rows[3].not_comparable, "Sparse layout");
}

TEST_F(ObservationWriterTest, NotesNothingOfACallWithATensorThatItRefuses) {
  ObservationWriter writer(folder_.path(), 0);
  writer.begin_step(1);
  EXPECT_THAT(error_of(Error::Kind::internal,
                       [&] {
                         observe(writer, Phase::pre_step, Kind::gradient,
                                 {{"a", at::zeros({2})}, {"b", at::zeros({2}), Shard{{2}, {1}}}});
                       }),
              HasSubstr("does not fit the global shape"));
  writer.finish();
  EXPECT_EQ(writer.rows(), 0);
  EXPECT_TRUE(read_journal(journal()).observations.empty());
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
}

/// Records its requests.
class AskedDigester : public CpuDigester {
 public:
  explicit AskedDigester(std::vector<std::vector<bool>>& wanted) : wanted_(wanted) {}

  void digest(std::span<DigestTask> tasks) override {
    wanted_.emplace_back();
    for (const DigestTask& task : tasks) wanted_.back().push_back(task.wants_bytes);
    CpuDigester::digest(tasks);
  }

 private:
  std::vector<std::vector<bool>>& wanted_;  ///< for each call, whether each tensor's bytes were
                                            ///< requested
};

/// A step of tensors of 16, 24, 8, 0 and 4 bytes, and one of 4 bytes, under a policy.
class KeepPolicyTest : public ObservationWriterTest {
 protected:
  void observe_under(KeepPolicy keep) { observe_under(keep, folder_.path()); }

  void observe_under(KeepPolicy keep, const std::filesystem::path& folder) {
    ObservationWriter writer(folder, 0,
                             {.keep = keep, .digester = std::make_unique<AskedDigester>(wanted_)});
    writer.begin_step(1);
    observe(writer, Phase::post_step, Kind::parameter,
            {{"16", at::ones({4})},
             {"none", at::Tensor()},
             {"24", at::ones({3, 2})},
             {"8", at::ones({4, 2}).select(1, 0).slice(0, 0, 2)},
             {"0", at::ones({0})},
             {"4", at::ones({1})}});
    writer.begin_step(2);
    observe(writer, Phase::post_step, Kind::parameter, {{"4", at::ones({1})}});
  }

  std::vector<std::string> names_kept(std::int64_t step) const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(snapshot_file(folder_.path(), 0, step))) return names;
    for (const auto& [key, tensor] : kept(step)) names.push_back(key.substr(key.rfind('/') + 1));
    return names;
  }

  std::vector<std::vector<bool>> wanted_;
};

TEST_F(KeepPolicyTest, OfAllKeepsEveryValue) {
  observe_under(KeepPolicy::all());
  EXPECT_THAT(names_kept(1), ElementsAre("0", "16", "24", "4", "8"));
  EXPECT_THAT(names_kept(2), ElementsAre("4"));
  EXPECT_THAT(wanted_, ElementsAre(std::vector<bool>(5, true), std::vector<bool>{true}))
      << "one call for all that can be compared";
}

TEST_F(KeepPolicyTest, OfNothingAsksForNoBytesAndMakesNoFile) {
  observe_under(KeepPolicy::none());
  EXPECT_THAT(wanted_, ElementsAre(std::vector<bool>(5, false), std::vector<bool>{false}));
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 1)));
  EXPECT_FALSE(std::filesystem::exists(snapshot_file(folder_.path(), 0, 2)));
}

TEST_F(KeepPolicyTest, WithABoundKeepsWhatFitsIntoWhatIsLeft) {
  observe_under(KeepPolicy::at_most(16 + 8 + 3));
  EXPECT_THAT(names_kept(1), ElementsAre("0", "16", "8"));
  EXPECT_THAT(names_kept(2), IsEmpty());
  EXPECT_THAT(wanted_, ElementsAre(std::vector<bool>{true, false, true, true, false},
                                   std::vector<bool>{false}));
}

TEST_F(KeepPolicyTest, WithABoundKeepsAsManyBytesAsThatInTheWholeRun) {
  observe_under(KeepPolicy::at_most(16 + 8 + 4 + 4));
  EXPECT_THAT(names_kept(1), ElementsAre("0", "16", "4", "8"));
  EXPECT_THAT(names_kept(2), ElementsAre("4"));
}

TEST_F(KeepPolicyTest, WithABoundThatIsReachedKeepsNothingMore) {
  observe_under(KeepPolicy::at_most(16));
  EXPECT_THAT(names_kept(1), ElementsAre("16"));
}

TEST_F(KeepPolicyTest, WithABoundBelowTheFirstValueKeepsSmallerOnes) {
  observe_under(KeepPolicy::at_most(15));
  EXPECT_THAT(names_kept(1), ElementsAre("0", "4", "8"));
  EXPECT_THAT(names_kept(2), IsEmpty());
}

TEST_F(KeepPolicyTest, ChangesNoRow) {
  observe_under(KeepPolicy::all());
  const std::vector<Observation> rows = read_journal(journal()).observations;
  EXPECT_EQ(rows.size(), 7U);
  for (const KeepPolicy keep : {KeepPolicy::none(), KeepPolicy::at_most(20)}) {
    const TemporaryFolder other;
    observe_under(keep, other.path());
    EXPECT_EQ(read_journal(journal_file(other.path(), 0)).observations, rows);
  }
}

}  // namespace
}  // namespace lockstep
