// Steps whose rows are skipped because all ranks agree by their indices: the judge's results equal
// those of reading everything.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "harness/record/manifest.h"
#include "harness/record/new_job.h"
#include "harness/record/process_identity.h"
#include "harness/record/step_index.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kSteps = 40;
constexpr std::int64_t kMostSteps = 100;
const LiteralEvidence::Tensor kParameter{Kind::parameter, Phase::pre_forward, 0};

void add_agreeing(std::int64_t from, std::int64_t to, int ranks, LiteralEvidence& files) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t step = from; step <= to; ++step) {
      const auto value = static_cast<float>(step);
      files.add(rank, step, "w", {value, 1}, kParameter);
      files.add(rank, step, "w", {value, 2});
    }
  }
}

void lose_all_values(int ranks, LiteralEvidence& files) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t step = 1; step <= kMostSteps; ++step) files.lose_values(rank, step);
  }
}

/// A run of one cell without a reference, whose ranks agree in all steps.
class LongCell {
 public:
  explicit LongCell(int ranks) : files_(ranks) {
    run_.environment.digest = kDigestName;
    run_.planned = PlannedCounts{};
    CellRecord& cell = run_.cells.emplace_back();
    cell.cell.scenario = "a-job";
    cell.cell.variant = "observed";
    cell.cell.role = Role::fixed;
    cell.cell.world_size = ranks;
    cell.cell.steps = kSteps;
    cell.folder = files_.folder().filename();
    cell.processes = ranks;
    cell.claims = {kAgree, agree_across_ranks(Kind::parameter, Phase::pre_forward), ranks_finish()};
    for (int rank = 0; rank < ranks; ++rank) cell.exits.emplace_back().rank = rank;
  }

  LiteralEvidence& files() { return files_; }
  Cell& cell() { return run_.cells[0].cell; }
  fs::path journal(int rank) const { return journal_file(files_.folder(), rank); }

  void add_agreeing(std::int64_t from, std::int64_t to, int ranks) {
    lockstep::add_agreeing(from, to, ranks, files_);
  }

  /// Without snapshots, because steps with some are read.
  void write() {
    lose_all_values(run_.cells[0].processes, files_);
    write_with_snapshots();
  }

  void write_with_snapshots() {
    files_.write_as([&](int rank) { return process_identity(run_.cells[0].cell, rank); });
  }

  /// Sealed as the files are now, so that indices alone tell of changes.
  CellRecord judged(IndexUse use, bool is_sealed = true) const {
    RunRecord run = run_;
    CellRecord& cell = run.cells[0];
    if (is_sealed) {
      cell.manifest =
          write_manifest(files_.folder(), cell.processes, execution_identity(cell.cell));
    }
    judge_run(run, files_.folder().parent_path(), {use});
    return run.cells[0];
  }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

TEST(CellOfManySteps, FailsWithoutAListOfItsFiles) {
  LongCell cell(2);
  cell.add_agreeing(1, kSteps, 2);
  cell.write();
  EXPECT_EQ(cell.judged(IndexUse::believed).verdict, CellVerdict::as_expected);
  const CellRecord judged = cell.judged(IndexUse::believed, false);
  EXPECT_EQ(judged.verdict, CellVerdict::missed);
  EXPECT_EQ(judged.checks.back().text, "no manifest of its files was written");
}

/// Rewrites the index of a rank, keeping its checksums.
template <class Change>
void change_index(const fs::path& journal, const Change& change) {
  StepIndex index = read_step_index(index_file(journal));
  change(index.steps);
  fs::remove(index_file(journal));
  StepIndexWriter writer(index_file(journal), index.identity);
  for (const IndexedStep& step : index.steps) writer.append(step);
}

TEST(SkippedSteps, AreThoseInWhichRanksAgreeByTheirIndices) {
  LongCell cell(2);
  cell.add_agreeing(1, 20, 2);
  for (int rank = 0; rank < 2; ++rank) {
    cell.files().add(rank, 21, "w", {21, 1}, kParameter);
    cell.files().add(rank, 21, "w", {21, static_cast<float>(rank)});
  }
  cell.add_agreeing(22, kSteps, 2);
  cell.write();
  EXPECT_EQ(cell.judged(IndexUse::believed).results.at(0).verdict, Verdict::violated);
  // A false index entry for a step outside the sample is believed, because its rows are not read.
  // Only `--full` detects it.
  change_index(cell.journal(1), [&](std::vector<IndexedStep>& steps) {
    steps[20].summary = read_step_index(index_file(cell.journal(0))).steps[20].summary;
  });
  const CellRecord believed = cell.judged(IndexUse::believed);
  EXPECT_EQ(believed.results.at(0).verdict, Verdict::holds);
  EXPECT_EQ(cell.judged(IndexUse::ignored).results.at(0).verdict, Verdict::violated);
  const CellRecord checked = cell.judged(IndexUse::checked);
  EXPECT_EQ(checked.results.at(0).verdict, Verdict::violated);
  EXPECT_THAT(checked.checks.back().text, HasSubstr("is not of its rows"));
}

TEST(SkippedSteps, OfAnIndexThatLiesAboutASampledStepAreRead) {
  for (const std::size_t place : {std::size_t{0}, std::size_t{kSteps} - 1}) {
    LongCell cell(2);
    cell.add_agreeing(1, kSteps, 2);
    cell.write();
    change_index(cell.journal(1), [&](std::vector<IndexedStep>& steps) {
      steps[place].summary.groups.begin()->second[0].low += 1;
    });
    change_index(cell.journal(0), [&](std::vector<IndexedStep>& steps) {
      steps[place].summary.groups.begin()->second[0].low += 1;
    });
    const CellRecord judged = cell.judged(IndexUse::believed);
    EXPECT_EQ(judged.results.at(0).verdict, Verdict::holds);
    EXPECT_EQ(judged.verdict, CellVerdict::missed);
    const Check& check = judged.checks.back();
    EXPECT_EQ(check.promise, "has step indices that fit its journals");
    EXPECT_THAT(check.text, HasSubstr("is not of its rows"));
    EXPECT_EQ(cell.judged(IndexUse::ignored).verdict, CellVerdict::as_expected);
  }
}

TEST(SkippedSteps, OfAJournalThatWasChangedAreReadAndTheCellFails) {
  LongCell cell(2);
  cell.add_agreeing(1, kSteps, 2);
  cell.write();
  std::string text = read_text(cell.journal(1), kLargestFile);
  const std::size_t row = text.find("\n23,0,1,");
  text.replace(row + 8, 4, text.substr(row + 8, 4) == "0000" ? "1111" : "0000");
  std::ofstream(cell.journal(1)) << text;
  const CellRecord judged = cell.judged(IndexUse::believed);
  EXPECT_EQ(judged.results.at(0).verdict, Verdict::violated);
  EXPECT_EQ(judged.results.at(0).findings.at(0).step, 23);
  EXPECT_EQ(judged.checks.back().result, Check::Result::missed);
  EXPECT_THAT(judged.checks.back().text, HasSubstr("rows of step 23 with the checksum"));
}

/// One fault, placed at random.
void plant(LiteralEvidence& files, int ranks, std::mt19937& random) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  const int step = 1 + below(kSteps);
  const int rank = below(ranks);
  switch (below(6)) {
    case 0:
      files.add(rank, step, "extra", {1});
      break;
    case 1:
      for (int each = 0; each < ranks; ++each) {
        files.add(each, step, "late", {each == rank ? 1.0F : 2.0F});
      }
      break;
    case 2:
      for (int each = 0; each < ranks; ++each) {
        files.add(each, step, "grouped", {static_cast<float>(each / 2)}).replica_group =
            each < 2 ? "0,1" : "2,3";
      }
      break;
    case 3:
      files.add_undefined(rank, step, "gone");
      break;
    case 4:
      for (int each = 0; each < ranks; ++each) files.add(each, step, "abandoned", {5});
      break;
    default:
      for (int each = 0; each < ranks; ++each) {
        files.add_shard(each, step, "s", {static_cast<float>(each)}, {ranks}, {each}, {1});
      }
  }
}

TEST(SkippedSteps, ChangeNothingThatIsFound) {
  std::mt19937 random(20);
  int violated = 0;
  for (int round = 0; round < 60; ++round) {
    const int ranks = 2 + round % 3;
    LongCell cell(ranks);
    cell.add_agreeing(1, kSteps, ranks);
    for (int fault = 0; fault < round % 4; ++fault) plant(cell.files(), ranks, random);
    cell.write();
    const CellRecord believed = cell.judged(IndexUse::believed);
    EXPECT_EQ(believed, cell.judged(IndexUse::ignored)) << "round " << round;
    EXPECT_EQ(believed, cell.judged(IndexUse::checked)) << "round " << round;
    if (believed.results.at(0).verdict == Verdict::violated) ++violated;
    if (round % 4 == 0) {
      EXPECT_EQ(believed.verdict, CellVerdict::as_expected) << round;
    }
  }
  EXPECT_GT(violated, 5);
}

/// Steps of jobs in which ranks agree are seen without their values.
TEST(SkippedSteps, OfJobsChangeNothingThatIsFound) {
  std::mt19937 random(20);
  std::map<Verdict, int> verdicts;
  for (int round = 0; round < 40; ++round) {
    const int ranks = 2 + round % 3;
    LiteralEvidence files(ranks);
    add_agreeing(1, 20, ranks, files);
    for (int fault = 0; fault < round % 4; ++fault) plant(files, ranks, random);
    for (int rank = 0; round % 5 == 4 && rank < ranks; ++rank) {
      files.add(rank, 1 + round / 2, "n", {NAN}, kParameter);
    }
    lose_all_values(ranks, files);
    RunRecord run = literal_run_of_job(files, ranks);
    run.jobs[0].claims = claims_of_jobs(round % 7 == 6 ? 2 : 0);
    files.write_as([&](int rank) { return process_identity(run.jobs[0], rank); });
    run.jobs[0].manifest = write_manifest(files.folder(), ranks, execution_identity(run.jobs[0]));
    std::vector<JobRecord> judged;
    for (const IndexUse use : {IndexUse::ignored, IndexUse::believed, IndexUse::checked}) {
      RunRecord copy = run;
      judge_run(copy, files.folder().parent_path(), {use});
      // Those of the start are counted in each step that is like the first one.
      copy.jobs[0].results.at(0).comparisons = 0;
      judged.push_back(copy.jobs[0]);
    }
    for (const std::size_t by_index : {1U, 2U}) {
      EXPECT_EQ(judged[by_index].results, judged[0].results) << "round " << round;
      EXPECT_EQ(judged[by_index].coverage, judged[0].coverage) << "round " << round;
      EXPECT_EQ(judged[by_index].notes, judged[0].notes) << "round " << round;
    }
    for (const ClaimResult& result : judged[0].results) ++verdicts[result.verdict];
  }
  EXPECT_GT(verdicts[Verdict::holds], 40);
  EXPECT_GT(verdicts[Verdict::undecided], 10);
  EXPECT_GT(verdicts[Verdict::violated], 4);
}

TEST(SkippedSteps, WithElementsThatAreNotFiniteOnAllRanksSaySo) {
  LongCell cell(3);
  cell.add_agreeing(1, 20, 3);
  for (int rank = 0; rank < 3; ++rank) {
    cell.files().add(rank, 21, "w", {1, 2}, kParameter);
    cell.files().add(rank, 21, "w", {NAN, 2});
  }
  cell.add_agreeing(22, kSteps, 3);
  cell.write();
  const CellRecord judged = cell.judged(IndexUse::believed);
  EXPECT_EQ(judged.results.at(0).verdict, Verdict::holds);
  EXPECT_THAT(judged.notes,
              testing::Contains("elements that are not finite were observed, first in step 21 "
                                "on ranks 0,1,2"));
}

/// Enough that several threads read their files.
TEST(SkippedSteps, OfManyRanksAreThoseOfFew) {
  for (const bool differs : {false, true}) {
    constexpr int kMany = 100;
    LongCell cell(kMany);
    for (int rank = 0; rank < kMany; ++rank) {
      for (std::int64_t step = 1; step <= 3; ++step) {
        cell.files().add(rank, step, "w", {1, 2}, kParameter);
        const bool is_other = differs && step == 2 && rank == 77;
        cell.files().add(rank, step, "w", {is_other ? 3.0F : 4.0F});
      }
    }
    cell.cell().steps = 3;
    cell.write();
    const CellRecord judged = cell.judged(IndexUse::believed);
    EXPECT_EQ(judged, cell.judged(IndexUse::checked));
    EXPECT_EQ(judged.results.at(0).verdict, differs ? Verdict::violated : Verdict::holds);
    if (differs) {
      EXPECT_EQ(judged.results[0].findings.at(0).groups.back(), std::vector<int>{77});
    }
    std::ofstream(cell.journal(9), std::ios::app) << "x";
    fs::remove(tensor_table_file(cell.journal(42)));
    fs::remove(tensor_table_file(cell.journal(23)));
    try {
      cell.judged(IndexUse::believed);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank-23.tensors.csv"));
    }
  }
}

TEST(SkippedSteps, HaveNoSnapshots) {
  LongCell cell(2);
  cell.add_agreeing(1, kSteps, 2);
  cell.write_with_snapshots();
  const auto file = snapshot_file(cell.files().folder(), 1, 21);
  Snapshot snapshot = read_snapshot(file);
  snapshot.tensors.begin()->second.bytes[0] ^= std::byte{1};
  write_safetensors(file, snapshot.tensors, snapshot.identity);
  EXPECT_THROW(cell.judged(IndexUse::believed), Error);
}

TEST(SkippedSteps, AreSkippedAgainAfterManyThatDiffer) {
  LongCell cell(2);
  constexpr std::int64_t kMany = 70;  // more than a fold stores
  for (std::int64_t step = 1; step <= kMany; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      cell.files().add(rank, step, "w", {1}, kParameter);
      cell.files().add(rank, step, "w" + std::to_string(step), {1});
    }
  }
  cell.cell().steps = kMany;
  cell.write();
  EXPECT_EQ(cell.judged(IndexUse::believed), cell.judged(IndexUse::ignored));
}

/// Rows of a tensor that is observed twice: which of the two a rank holds is unknown.
TEST(SkippedSteps, WithATensorObservedTwiceAreRefused) {
  LongCell cell(2);
  for (int rank = 0; rank < 2; ++rank) {
    cell.files().add(rank, 1, "w", {rank == 0 ? 1.0F : 2.0F});
    cell.files().add(rank, 1, "w", {rank == 0 ? 2.0F : 1.0F});
  }
  cell.write();
  EXPECT_THROW(cell.judged(IndexUse::believed), Error);
}

TEST(SkippedSteps, ThatALaterSetLeavesATensorOutOfSaysSo) {
  LongCell cell(2);
  cell.add_agreeing(1, 30, 2);
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 31; step <= kSteps; ++step) {
      cell.files().add(rank, step, "w", {1, 2}, kParameter);
      cell.files().add(rank, step, "v", {1, 2});
    }
  }
  cell.write();
  const ClaimResult result = cell.judged(IndexUse::believed).results.at(0);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, "no rank observed w after step 30 of 40");
  EXPECT_EQ(result.comparisons, 40);
}

}  // namespace
}  // namespace lockstep
