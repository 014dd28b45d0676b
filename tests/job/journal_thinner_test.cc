#include "harness/job/journal_thinner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/step_writer.h"
#include "harness/record/whole_file.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A running job of two ranks, with one row in each step and ten steps in each segment.
class ThinnedJob : public testing::Test {
 protected:
  static constexpr std::int64_t kSegment = 10;
  static constexpr int kRanks = 2;

  ThinnedJob() {
    WatchControl::create(folder());
    control_.emplace(folder());
    for (int rank = 0; rank < kRanks; ++rank) {
      std::ofstream(folder() / ("rank-" + std::to_string(rank) + ".watch.json"))
          << R"({"rank": )" << rank << R"(, "world_size": 2, "torch": ""})";
      writers_.push_back(
          std::make_unique<StepWriter>(folder(), rank, "a rank", KeepPolicy::at_most(0), kSegment));
    }
    thinner_.emplace(folder(), *control_);
  }

  const fs::path& folder() const { return folder_.path(); }

  void observe(int rank, std::int64_t step, std::uint64_t value = 1, const char* name = "weight",
               std::int64_t non_finite = 0) {
    Observation row;
    row.step = step;
    row.kind = Kind::gradient;
    row.phase = Phase::pre_step;
    row.name = name;
    row.dtype = "float32";
    row.global_shape = row.local_shape = {1};
    row.offset = {0};
    row.digest = {value, static_cast<std::uint64_t>(step)};
    row.statistics.non_finite = non_finite;
    StepWriter& writer = *writers_[static_cast<std::size_t>(rank)];
    writer.begin_step(step);
    writer.claim(row);
    const Observation* const rows[] = {&row};
    writer.write_sketches({{0, Sketch{}}});
    writer.append(rows);
    writer.finish();
  }

  void observe_all(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      for (int rank = 0; rank < kRanks; ++rank) observe(rank, step);
    }
  }

  void look(int times = 1) {
    for (int i = 0; i < times; ++i) {
      follower_.look();
      thinner_->look(follower_, 3);
    }
  }

  /// The steps that have rows.
  std::vector<std::int64_t> steps_of(int rank) const {
    const JournalReader reader(journal_file(folder(), rank));
    EXPECT_EQ(reader.index_fault(), "");
    std::vector<std::int64_t> steps;
    for (const JournalStep& step : reader.steps()) steps.push_back(step.step);
    return steps;
  }

  std::vector<std::int64_t> sketched_steps_of(int rank, std::int64_t last) const {
    const SketchReader reader(sketch_file(folder(), rank), 100);
    std::vector<std::int64_t> steps;
    for (std::int64_t step = 1; step <= last; ++step) {
      if (reader.at(step, 0).contains(0)) steps.push_back(step);  // its one row
    }
    return steps;
  }

  static std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> steps;
    for (std::int64_t step = first; step <= last; ++step) steps.push_back(step);
    return steps;
  }

  TemporaryFolder folder_;
  std::vector<std::unique_ptr<StepWriter>> writers_;
  std::optional<WatchControl> control_;
  RankFollower follower_{folder_.path()};
  std::optional<JournalThinner> thinner_;
};

TEST_F(ThinnedJob, KeepsItsFirstAndLastSegmentsAndOneOfAHundredSteps) {
  observe_all(1, 400);
  look(40);
  // 39 segments have ended.
  std::vector<std::int64_t> expected = range(1, 40);
  for (const std::int64_t step : {101, 201, 301}) expected.push_back(step);
  for (const std::int64_t step : range(311, 400)) expected.push_back(step);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(steps_of(rank), expected);
    EXPECT_EQ(sketched_steps_of(rank, 400), expected);
    EXPECT_EQ(JournalReader(journal_file(folder(), rank)).rows(), 400);
  }
}

/// All ranks count the same segments in the same step.
TEST_F(ThinnedJob, TellsItsRanksAheadOfTime) {
  observe_all(1, 140);
  look();
  EXPECT_EQ(follower_.last_step(), 139);
  EXPECT_EQ(control_->thinned_segments(141), 0);
  EXPECT_EQ(control_->thinned_segments(142), 1);
  observe_all(141, 142);
  look();
  observe_all(143, 160);
  look(5);  // three segments: the second and the third are told together
  EXPECT_EQ(control_->thinned_segments(159), 1);
  EXPECT_EQ(control_->thinned_segments(162), 3);
  EXPECT_EQ(control_->thinned_segments(1000), 3);
}

TEST_F(ThinnedJob, KeepsTheFirstStepsOfTheirKind) {
  for (std::int64_t step = 1; step <= 180; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const char* const name = step == 45 || step == 46 ? "bias" : "weight";
      observe(rank, step, 1, name, step == 53 || step == 54 ? 1 : 0);
    }
  }
  look(10);
  std::vector<std::int64_t> expected = range(1, 40);
  // In 53 and 55 another number of elements is not finite than before.
  for (const std::int64_t step : {45, 53, 55}) expected.push_back(step);
  for (const std::int64_t step : range(91, 180)) expected.push_back(step);
  EXPECT_EQ(steps_of(0), expected);
  EXPECT_EQ(steps_of(1), expected);
}

TEST_F(ThinnedJob, IsLeftAloneWhereRanksDiffer) {
  observe_all(1, 59);
  observe(0, 60, 1);
  observe(1, 60, 2);
  observe_all(61, 200);
  look(10);
  EXPECT_EQ(steps_of(0), range(1, 200));
  EXPECT_EQ(control_->thinned_segments(1000), 0);
}

TEST_F(ThinnedJob, WaitsForASlowRank) {
  for (std::int64_t step = 1; step <= 200; ++step) observe(0, step);
  for (std::int64_t step = 1; step <= 52; ++step) observe(1, step);
  look(10);
  std::vector<std::int64_t> expected = range(1, 40);
  for (const std::int64_t step : range(51, 200)) expected.push_back(step);
  EXPECT_EQ(steps_of(0), expected);
  EXPECT_EQ(steps_of(1), range(1, 52));
  EXPECT_EQ(control_->thinned_segments(1000), 0);
}

TEST_F(ThinnedJob, WaitsForAStepThatOneRankDidNotObserve) {
  for (std::int64_t step = 1; step <= 200; ++step) {
    observe(0, step);
    if (step != 55) observe(1, step);
  }
  look(10);
  EXPECT_EQ(steps_of(0).size(), 190U);  // 41 to 50 are gone
}

TEST_F(ThinnedJob, IsLeftAloneWhileValuesAreStored) {
  control_->ask_to_keep();
  observe_all(1, 200);
  look(10);
  EXPECT_EQ(steps_of(0), range(1, 200));
}

TEST_F(ThinnedJob, GoesOnIfItsFilesCannotBeWritten) {
  const fs::path blocked = temporary_name(folder() / "rank-0.segment-5.csv");
  fs::create_directory(blocked);  // where the thinned file would be made
  observe_all(1, 150);
  look(10);
  fs::remove(blocked);
  observe_all(151, 200);
  look(10);
  EXPECT_EQ(steps_of(0), range(1, 200));
  EXPECT_EQ(control_->thinned_segments(1000), 0);
}

}  // namespace
}  // namespace lockstep
