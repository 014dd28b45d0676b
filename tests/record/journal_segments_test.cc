#include "harness/record/journal_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "harness/record/journal.h"
#include "harness/record/journal_writer.h"
#include "reports/base/error.h"
#include "tests/command.h"
#include "tests/record/whole_journal.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Steps 1 to 6, of two rows each, in three segments.
class SegmentedJournal : public testing::Test {
 protected:
  SegmentedJournal() {
    JournalWriter writer(path_, "rank 0 of a job");
    for (std::int64_t step = 1; step <= 6; ++step) {
      if (step == 3 || step == 5) writer.begin_segment();
      writer.append(observation(step, "weight"));
      writer.append(observation(step, "bias"));
    }
    EXPECT_EQ(writer.segment(), 3);
  }

  static Observation observation(std::int64_t step, const std::string& name) {
    Observation o;
    o.step = step;
    o.kind = Kind::gradient;
    o.phase = Phase::pre_step;
    o.name = name;
    o.dtype = "float32";
    o.global_shape = o.local_shape = {2};
    o.offset = {0};
    o.digest = {static_cast<std::uint64_t>(step), name.size()};
    o.statistics.norm = static_cast<double>(step);
    return o;
  }

  static std::vector<std::int64_t> numbers(const JournalReader& reader) {
    std::vector<std::int64_t> steps;
    for (const JournalStep& step : reader.steps()) steps.push_back(step.step);
    return steps;
  }

  static std::vector<std::int64_t> thinned(const JournalReader& reader) {
    std::vector<std::int64_t> steps;
    for (const IndexedStep& step : reader.thinned_steps()) steps.push_back(step.step);
    return steps;
  }

  fs::path segment(int number) const { return segment_file(path_, number); }

  void thin(int number, const std::vector<std::int64_t>& kept) const {
    thin_journal(segment(number), [&](std::int64_t step) {
      return std::find(kept.begin(), kept.end(), step) != kept.end();
    });
  }

  /// Every row is that of its step.
  static void expect_rows(const JournalReader& reader) {
    for (const JournalStep& step : reader.steps()) {
      const auto rows = reader.read(step);
      ASSERT_EQ(rows.size(), 2U);
      for (const Observation& row : rows) {
        EXPECT_EQ(row.step, step.step);
        EXPECT_EQ(row.digest, observation(step.step, row.name).digest);
      }
      EXPECT_EQ(rows[0].seq, 2 * (step.step - 1));
    }
  }

  TemporaryFolder folder_;
  fs::path path_ = journal_file(folder_.path(), 0);
};

TEST_F(SegmentedJournal, IsReadAsOne) {
  for (const IndexUse use : {IndexUse::believed, IndexUse::ignored}) {
    const JournalReader reader(path_, use);
    EXPECT_EQ(reader.index_fault(), "");
    EXPECT_THAT(numbers(reader), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_EQ(reader.rows(), 12);
    EXPECT_EQ(reader.segments(), 3U);
    expect_rows(reader);
  }
  EXPECT_EQ(segment(2).filename(), "rank-0.segment-2.csv");
  EXPECT_EQ(count_segments(path_), 3);
}

TEST_F(SegmentedJournal, LosesTheRowsOfMostStepsAndKeepsTheirSummaries) {
  const auto size = fs::file_size(segment(1));
  const std::vector<JournalStep> before = JournalReader(path_).steps();
  thin(1, {2});
  EXPECT_LT(fs::file_size(segment(1)), size);
  const JournalReader reader(path_);
  EXPECT_EQ(reader.index_fault(), "");
  EXPECT_THAT(numbers(reader), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(thinned(reader), ElementsAre(1));
  EXPECT_EQ(reader.thinned_steps()[0].summary, before[0].summary);
  EXPECT_EQ(reader.rows(), 12);
  EXPECT_FALSE(reader.misses_rows());
  expect_rows(reader);
  thin(1, {});  // again
  EXPECT_THAT(numbers(JournalReader(path_)), ElementsAre(2, 3, 4, 5, 6));
}

TEST_F(SegmentedJournal, MayKeepNoRowOfASegment) {
  thin(1, {});
  thin(2, {4});
  const JournalReader reader(path_);
  EXPECT_EQ(reader.index_fault(), "");
  EXPECT_THAT(numbers(reader), ElementsAre(4, 5, 6));
  EXPECT_THAT(thinned(reader), ElementsAre(1, 2, 3));
  expect_rows(reader);
}

TEST_F(SegmentedJournal, WithoutAnIndexHasTheRowsThatAreLeft) {
  thin(1, {2});
  const JournalReader reader(path_, IndexUse::ignored);
  EXPECT_THAT(numbers(reader), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_TRUE(reader.thinned_steps().empty());
  EXPECT_EQ(reader.rows(), 10);
  EXPECT_TRUE(reader.misses_rows());
}

TEST_F(SegmentedJournal, SaysThatASegmentIsMissing) {
  fs::remove(segment(2));
  const JournalReader reader(path_);
  EXPECT_THAT(reader.index_fault(), HasSubstr("whose segment of the journal is there"));
  EXPECT_THAT(numbers(reader), ElementsAre(1, 2));
}

TEST_F(SegmentedJournal, RefusesASegmentOfAnotherRank) {
  fs::remove(segment(3));
  {
    JournalWriter other(folder_.path() / "other.csv", "rank 1 of a job");
    other.append(observation(5, "weight"));
  }
  fs::rename(folder_.path() / "other.csv", segment(3));
  EXPECT_THAT(refusal_of(segment(3), [&] { JournalReader reader(path_); }),
              HasSubstr("rank 1 of a job"));
}

/// Rows that nobody said were removed are lost.
TEST_F(SegmentedJournal, DoesNotMistakeLostRowsForRemovedOnes) {
  const std::vector<JournalStep> steps = JournalReader(path_).steps();
  fs::resize_file(segment(2), steps[3].offset);  // without step 4
  EXPECT_NE(JournalReader(path_).index_fault(), "");
  fs::resize_file(segment(2), steps[3].offset - 40);
  EXPECT_NE(JournalReader(path_).index_fault(), "");
  fs::resize_file(segment(2), 0);
  EXPECT_NE(JournalReader(path_).index_fault(), "");
}

TEST_F(SegmentedJournal, FindsAChangedRowAmongThoseThatWereKept) {
  thin(1, {2});
  std::fstream file(segment(1), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-6, std::ios::end);  // the norm
  file.put('7');
  file.close();
  EXPECT_EQ(JournalReader(path_, IndexUse::ignored).steps()[0].step, 2);
  EXPECT_THAT(JournalReader(path_).index_fault(), HasSubstr("with the checksum"));
}

TEST_F(SegmentedJournal, FindsARowOfNoStepInTheIndex) {
  thin(1, {1, 2});
  std::ofstream(segment(1), std::ios::app) << "2,1,0," << std::string(32, '0') << ",1,,,0\n";
  EXPECT_NE(JournalReader(path_).index_fault(), "");
}

TEST_F(SegmentedJournal, RefusesAStepThatGoesOnInTheNextSegment) {
  std::string rows = text_of(segment(2));
  for (std::size_t at = 0; (at = rows.find("\n3,", at)) != rows.npos;) rows[at + 1] = '2';
  write_text(segment(2), rows);
  EXPECT_EQ(refusal_of(segment(2), [&] { JournalReader(path_, IndexUse::ignored); }),
            ":3:1: expected more than 2 as 'step', found '2'.");
}

TEST_F(SegmentedJournal, GoesOnWhereARankWasKilled) {
  {
    std::ofstream last(segment(3), std::ios::app);
    last << "7,0,0," << std::string(32, '0') << ",1,,,0\n7,0,1,00";
  }
  const JournalReader reader(path_);
  EXPECT_EQ(reader.index_fault(), "");
  EXPECT_TRUE(reader.has_torn_tail());
  EXPECT_THAT(numbers(reader), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(reader.rows(), 13);
}

/// A rank that was killed when it had made the file, or in its header.
TEST_F(SegmentedJournal, MayEndWithAnEmptySegment) {
  for (const char* const begun : {"", "# journal 2, dig"}) {
    std::ofstream(segment(4)) << begun;
    const JournalReader reader(path_);
    EXPECT_EQ(reader.index_fault(), "");
    EXPECT_THAT(numbers(reader), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(SegmentedJournal, IsLeftAsItIsIfItCannotBeThinned) {
  std::ofstream(segment(1), std::ios::app) << "3,0,0";
  const auto size = fs::file_size(segment(1));
  EXPECT_THAT(refusal_of(segment(1), [&] { thin(1, {}); }), HasSubstr("whole rows"));
  EXPECT_EQ(fs::file_size(segment(1)), size);
}

}  // namespace
}  // namespace lockstep
