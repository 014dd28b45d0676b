#include "harness/record/step_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <span>

#include "harness/record/journal.h"
#include "harness/record/journal_writer.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/full_disk.h"
#include "tests/record/whole_journal.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

ObservedTensor tensor_of(const std::string& name, const std::string& group = "") {
  ObservedTensor tensor;
  tensor.name = name;
  tensor.dtype = "float32";
  tensor.replica_group = group;
  return tensor;
}

StepSummary summary_of(const std::vector<std::pair<ObservedTensor, Digest>>& rows) {
  StepSummary summary;
  for (const auto& [tensor, digest] : rows) add(identity_of(tensor), 0, digest, 0, summary);
  return summary;
}

TEST(StepSummary, KnowsNoOrderOfRows) {
  EXPECT_EQ(summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("b"), {3, 4}}}),
            summary_of({{tensor_of("b"), {3, 4}}, {tensor_of("a"), {1, 2}}}));
}

TEST(StepSummary, KnowsWhichTensorHasWhichValue) {
  const StepSummary one = summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("b"), {3, 4}}});
  const StepSummary other = summary_of({{tensor_of("a"), {3, 4}}, {tensor_of("b"), {1, 2}}});
  EXPECT_EQ(one.tensors, other.tensors);
  EXPECT_NE(one.groups, other.groups);
}

TEST(StepSummary, KnowsTheSetWithoutItsValues) {
  const StepSummary one = summary_of({{tensor_of("a"), {1, 2}}});
  EXPECT_EQ(one.tensors, summary_of({{tensor_of("a"), {5, 6}}}).tensors);
  EXPECT_NE(one.tensors, summary_of({{tensor_of("b"), {1, 2}}}).tensors);
  EXPECT_NE(one.tensors, summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("a"), {1, 2}}}).tensors);
  for (const auto& change : std::vector<void (*)(ObservedTensor&)>{
           [](ObservedTensor& t) { t.phase = Phase::post_step; },
           [](ObservedTensor& t) { t.kind = Kind::buffer; },
           [](ObservedTensor& t) { t.dtype = "float64"; },
           [](ObservedTensor& t) { t.global_shape = t.local_shape = t.offset = {0}; },
           [](ObservedTensor& t) { t.replica_group = "0,1"; },
           [](ObservedTensor& t) { t.not_comparable = "sparse layout"; }}) {
    ObservedTensor changed = tensor_of("a");
    change(changed);
    EXPECT_NE(one.tensors, summary_of({{changed, {1, 2}}}).tensors);
  }
}

TEST(StepSummary, CountsOtherMicroBatchesAsOtherRows) {
  StepSummary first, second;
  add(identity_of(tensor_of("a")), 0, {1, 2}, 0, first);
  add(identity_of(tensor_of("a")), 1, {1, 2}, 0, second);
  EXPECT_NE(first.tensors, second.tensors);
  EXPECT_NE(first.groups, second.groups);
}

TEST(StepSummary, KeepsGroupsApart) {
  const StepSummary summary =
      summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("e", "0,2"), {3, 4}}});
  ASSERT_EQ(summary.groups.size(), 2U);
  const StepSummary other = summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("e", "0,2"), {9, 9}}});
  const bool is_first_of_all = *summary.groups.begin() == *other.groups.begin();
  const bool is_last_of_all = *summary.groups.rbegin() == *other.groups.rbegin();
  EXPECT_NE(is_first_of_all, is_last_of_all);
}

class StepIndexFile : public testing::Test {
 protected:
  static IndexedStep step(std::int64_t number, std::uint64_t offset) {
    IndexedStep step;
    step.step = number;
    step.offset = offset;
    step.bytes = 100;
    step.checksum = {7, static_cast<std::uint64_t>(number)};
    step.summary = summary_of({{tensor_of("a"), {1, 2}}, {tensor_of("e", "0,2"), {3, 4}}});
    step.summary.non_finite = 5;
    return step;
  }

  void write(const std::vector<IndexedStep>& steps) const {
    fs::remove(path_);
    StepIndexWriter writer(path_, "rank 1 of a cell");
    for (const IndexedStep& step : steps) writer.append(step);
  }

  std::string refusal() const {
    return refusal_of(path_, [&] { read_step_index(path_); });
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "rank-1.index";
};

TEST_F(StepIndexFile, IsReadBack) {
  IndexedStep bare;
  bare.step = 9;
  bare.summary.rows = 1;
  const std::vector<IndexedStep> steps{step(1, 10), step(7, 110), bare};
  write(steps);
  const StepIndex index = read_step_index(path_);
  EXPECT_EQ(index.identity, "rank 1 of a cell");
  EXPECT_EQ(index.steps, steps);
}

TEST_F(StepIndexFile, LosesATornEntry) {
  write({step(1, 10)});
  const auto size = fs::file_size(path_);
  write({step(1, 10), step(2, 110)});
  const auto whole = fs::file_size(path_);
  // The second step has two entries, one per replica group.
  for (auto torn = size; torn < whole; ++torn) {
    fs::resize_file(path_, torn);
    EXPECT_EQ(read_step_index(path_).steps.size(), 1U);
    write({step(1, 10), step(2, 110)});
  }
}

TEST_F(StepIndexFile, HasNoPartOfAnEntryOnceTheDiskHasRoomAgain) {
  StepIndexWriter writer(path_, "rank 1 of a cell");
  {
    const FullDisk full(fs::file_size(path_) + 10);
    EXPECT_THROW(writer.append(step(1, 10)), Error);
  }
  writer.append(step(1, 10));
  EXPECT_EQ(read_step_index(path_).steps, (std::vector<IndexedStep>{step(1, 10)}));
}

TEST_F(StepIndexFile, IsRefusedWhereAByteWasChanged) {
  write({step(1, 10)});
  const std::string text = read_text(path_, kLargestFile);
  for (std::size_t at = 512; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    std::ofstream(path_, std::ios::binary) << changed;
    EXPECT_THAT(refusal(), HasSubstr("as it was written")) << at;
  }
}

TEST_F(StepIndexFile, OfAnotherVersionIsRefused) {
  write({step(1, 10)});
  const std::string text = read_text(path_, kLargestFile);
  const auto refusal_with = [&](const std::string& begin) {
    std::string changed = text;
    std::ofstream(path_, std::ios::binary)
        << changed.replace(0, begin.size(), begin).substr(0, text.size());
    const std::string whole = refusal();
    EXPECT_THROW(StepIndexReader(path_).completed(), Error);
    return whole;
  };
  EXPECT_EQ(refusal_with("lockstep step index 2\n"),
            " is a step index of version '2', but this program reads version 1: use the Lockstep "
            "that wrote it, or record the run again.");
  for (const std::string version : {"0", "01", "x", "99999999999999999999"}) {
    EXPECT_THAT(refusal_with("lockstep step index " + version + "\nrank 0\n"),
                HasSubstr("is a step index of version '" + version + "', but"));
  }
  EXPECT_THAT(refusal_with("lockstep step index \nrank 0\n"),
              HasSubstr("is a step index without a version, but"));
}

TEST_F(StepIndexFile, IsRefusedWhereItIsNone) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(600, 'x')}) {
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_THAT(refusal(), HasSubstr("expected the header of a step index"));
  }
}

/// A journal of three steps, with its two other files.
class IndexedJournal : public testing::Test {
 protected:
  IndexedJournal() {
    JournalWriter journal(path_, "rank 0 of a cell");
    for (const std::int64_t step : {1, 2, 5}) {
      for (const char* name : {"a", "b"}) {
        Observation row;
        static_cast<ObservedTensor&>(row) = tensor_of(name);
        row.step = step;
        row.digest = {static_cast<std::uint64_t>(step), 1};
        row.statistics.non_finite = step == 5 ? 3 : 0;
        journal.append(row);
      }
    }
  }

  /// Expects the same result from both ways of opening it.
  void expect_same_steps(const std::string& fault) const {
    const JournalReader believed(path_);
    const JournalReader scanned(path_, IndexUse::ignored);
    EXPECT_THAT(believed.index_fault(), HasSubstr(fault));
    if (fault.empty()) {
      EXPECT_EQ(believed.index_fault(), "");
    }
    EXPECT_EQ(believed.rows(), scanned.rows());
    EXPECT_EQ(believed.has_torn_tail(), scanned.has_torn_tail());
    ASSERT_EQ(believed.steps().size(), scanned.steps().size());
    for (std::size_t i = 0; i < believed.steps().size(); ++i) {
      const JournalStep& one = believed.steps()[i];
      const JournalStep& other = scanned.steps()[i];
      EXPECT_EQ(one.summary, other.summary);
      EXPECT_EQ(std::tie(one.step, one.offset, one.bytes, one.first_seq, one.line),
                std::tie(other.step, other.offset, other.bytes, other.first_seq, other.line));
      EXPECT_EQ(believed.read(one), scanned.read(other));
    }
  }

  void change(const fs::path& file, const std::string& from, const std::string& to) const {
    std::string text = read_text(file, kLargestFile);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(file, std::ios::binary) << text;
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "rank-0.csv";
  fs::path index_ = index_file(path_);
};

TEST_F(IndexedJournal, HasTheStepsOfItsRows) {
  expect_same_steps("");
  const JournalReader reader(path_);
  ASSERT_EQ(reader.steps().size(), 3U);
  EXPECT_TRUE(reader.steps()[2].is_indexed);
  EXPECT_EQ(reader.steps()[2].step, 5);
  EXPECT_EQ(reader.steps()[2].summary.non_finite, 6);
}

TEST_F(IndexedJournal, WhoseStepGoesOnAfterItWasFinishedIsRead) {
  remove_journal(path_);
  Observation row;
  static_cast<ObservedTensor&>(row) = tensor_of("a");
  row.step = 1;
  const auto journal = std::make_unique<JournalWriter>(path_);
  for (const std::int64_t rows : {1, 2, 3}) {
    row.micro_batch = rows;
    journal->append(row);
    expect_same_steps("");  // as if the rank were killed now
    journal->finish();
    journal->finish();
    expect_same_steps("");
    ASSERT_EQ(JournalReader(path_).steps().size(), 1U);
    EXPECT_TRUE(JournalReader(path_).steps()[0].is_indexed);
    EXPECT_EQ(JournalReader(path_).rows(), rows);
  }
  row.step = 2;
  journal->append(row);
  expect_same_steps("");
  EXPECT_EQ(JournalReader(path_).rows(), 4);
}

TEST_F(IndexedJournal, WithoutAnIndexIsRead) {
  fs::remove(index_);
  expect_same_steps("");
}

TEST_F(IndexedJournal, WhoseLastStepsHaveNoEntryIsRead) {
  for (const int entries : {2, 1, 0}) {
    fs::resize_file(index_, 512 + static_cast<std::uintmax_t>(entries) * 23 * 8 + 7);
    expect_same_steps("");
    EXPECT_EQ(JournalReader(path_).steps()[static_cast<std::size_t>(entries)].is_indexed, false);
  }
}

TEST_F(IndexedJournal, WhoseLastRowIsTornIsReadByItsRows) {
  fs::resize_file(path_, fs::file_size(path_) - 2);
  expect_same_steps("bytes, which are left of the journal, found 'step 5 of");
  EXPECT_TRUE(JournalReader(path_).has_torn_tail());
}

TEST_F(IndexedJournal, WhoseRowsWereChangedIsSaidToBe) {
  change(path_, "\n2,0,1,", "\n2,1,1,");
  expect_same_steps("expected rows of step 2 with the checksum");
}

TEST_F(IndexedJournal, WithTheIndexOfAnotherIsSaidToBe) {
  change(index_, "rank 0 of", "rank 1 of");
  expect_same_steps("expected an index of rank 0 of a cell, found 'rank 1 of a cell'");
}

TEST_F(IndexedJournal, WhoseIndexWasChangedIsSaidToBe) {
  std::string text = read_text(index_, kLargestFile);
  text[600] = static_cast<char>(text[600] ^ 1);
  std::ofstream(index_, std::ios::binary) << text;
  expect_same_steps("as it was written");
}

TEST_F(IndexedJournal, WhoseIndexCountsWhatNoFileHoldsIsSaidToBe) {
  const StepIndex index = read_step_index(index_);
  const auto with = [&](const std::function<void(IndexedStep&)>& change) {
    std::vector<IndexedStep> steps = index.steps;
    change(steps[1]);
    fs::remove(index_);
    StepIndexWriter writer(index_, index.identity);
    for (const IndexedStep& step : steps) writer.append(step);
  };
  with([](IndexedStep& step) { step.summary.rows = std::int64_t{1} << 62; });
  expect_same_steps("expected a step with rows, in as many bytes as they take, found 'step 2 with");
  with([](IndexedStep& step) { step.summary.rows = -1; });
  expect_same_steps("found 'step 2 with -1 in");
  with([](IndexedStep& step) { step.summary.non_finite = -1; });
  expect_same_steps("expected a step with rows");
  with([](IndexedStep& step) { step.bytes = ~std::uint64_t{0}; });
  expect_same_steps("bytes, which are left of the journal, found 'step 2 of 18446744073709551615'");
  with([](IndexedStep& step) { step.offset = ~std::uint64_t{0}; });
  expect_same_steps("expected a step whose rows begin at byte");
  with([](IndexedStep& step) { step.step = 1; });
  expect_same_steps("expected a step after 1, found 'step 1 behind it'");
}

TEST_F(IndexedJournal, WhoseEntryHasRowsOfTwoStepsIsFoundOut) {
  StepIndex index = read_step_index(index_);
  fs::remove(index_);
  {
    StepIndexWriter writer(index_, index.identity);
    IndexedStep both = index.steps[0];
    both.bytes += index.steps[1].bytes;
    both.summary.rows += index.steps[1].summary.rows;
    const std::string text = read_text(path_, kLargestFile);
    const std::span bytes = std::span(text).subspan(both.offset, both.bytes);
    both.checksum = digest_run(std::as_bytes(bytes), 0);
    writer.append(both);
    writer.append(index.steps[2]);
  }
  const JournalReader reader(path_);
  EXPECT_EQ(reader.index_fault(), "");
  EXPECT_THROW(reader.read(reader.steps()[0]), StaleIndex);
}

TEST_F(IndexedJournal, OfAnotherVersionIsRefused) {
  const auto refusal_with = [&](const std::string& begin) {
    const std::string whole = read_text(path_, kLargestFile);
    change(path_, "# journal 2, ", begin);
    std::string refusal = refusal_of(path_, [&] { JournalReader{path_}; });
    std::ofstream(path_, std::ios::binary) << whole;
    return refusal;
  };
  EXPECT_EQ(refusal_with("# journal 3, "),
            " is a journal of version '3', but this program reads version 2: use the Lockstep that "
            "wrote it, or record the run again.");
  for (const std::string version : {"0", "1", "-2", "2.0", "x", "99999999999999999999"}) {
    EXPECT_THAT(refusal_with("# journal " + version + ", "),
                HasSubstr("is a journal of version '" + version + "', but"));
  }
  EXPECT_THAT(refusal_with("# journal , "), HasSubstr("is a journal without a version, but"));
  for (const char* begin : {"# ", "", "journal 2, "}) {  // as of a file that was cut
    EXPECT_THAT(refusal_with(begin), HasSubstr(":1: expected the header of a journal, found"));
  }
}

TEST_F(IndexedJournal, WithDigestsOfAnotherDefinitionIsRefused) {
  change(path_, "lockstep-2", "lockstep-9");
  EXPECT_THAT(refusal_of(path_, [&] { JournalReader{path_}; }),
              HasSubstr(":1: expected digests by lockstep-2, found 'journal 2, digest lockstep-9"));
}

TEST_F(IndexedJournal, WhoseEntryIsOfOtherRowsIsFoundOutWhereTheyAreRead) {
  StepIndex index = read_step_index(index_);
  fs::remove(index_);
  {
    StepIndexWriter writer(index_, index.identity);
    index.steps[1].summary = index.steps[0].summary;
    for (const IndexedStep& step : index.steps) writer.append(step);
  }
  const JournalReader reader(path_);
  EXPECT_EQ(reader.index_fault(), "");
  EXPECT_EQ(reader.read(reader.steps()[0]).size(), 2U);
  EXPECT_THROW(reader.read(reader.steps()[1]), StaleIndex);
}

}  // namespace
}  // namespace lockstep
