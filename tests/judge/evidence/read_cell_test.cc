#include "harness/judge/evidence/read_cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harness/record/journal_writer.h"
#include "harness/record/process_identity.h"
#include "reports/base/error.h"
#include "tests/judge/literal_evidence.h"
#include "tests/record/whole_journal.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A cell whose two ranks observed the same two tensors in two steps, and joined one collective
/// each.
class CellOnDisk : public testing::Test {
 protected:
  void write(Role role = Role::fixed) {
    record_.cell.scenario = "a-scenario";
    record_.cell.variant = "a-variant";
    record_.cell.role = role;
    record_.cell.world_size = 2;
    record_.cell.steps = 2;
    record_.folder = literal_.folder().filename();
    record_.processes = 2;
    for (int rank = 0; rank < 2; ++rank) {
      for (const std::int64_t step : {1, 2}) {
        literal_.add(rank, step, "a", {1, 2});
        literal_.add(rank, step, "b", {3, 4});
      }
      RankExit end;
      end.rank = rank;
      end.rows = 4;
      record_.exits.push_back(end);
    }
    literal_.write_as([&](int rank) { return process_identity(record_.cell, rank); });
    for (int rank = 0; rank < 2; ++rank) {
      CollectiveLog log(collective_log_file(folder(), rank), rank,
                        process_identity(record_.cell, rank));
      log.enter({});
    }
  }

  std::unique_ptr<StepReader> read() const {
    auto evidence = open_execution(folder().parent_path(), record_, writers_of(record_));
    read_all(*evidence);
    return evidence;
  }

  std::string refusal() const {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "accepted";
  }

  const fs::path& folder() const { return literal_.folder(); }
  fs::path journal(int rank) const { return folder() / ("rank-" + std::to_string(rank) + ".csv"); }

  void copy(const fs::path& from, const fs::path& to) const {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }

  void exchange(const fs::path& a, const fs::path& b) const {
    fs::rename(a, folder() / "aside");
    fs::rename(b, a);
    fs::rename(folder() / "aside", b);
  }

  /// Rewrites a journal with the rows for which `is_kept(row)`, renumbered.
  template <class IsKept>
  void keep_rows(int rank, const IsKept& is_kept) const {
    const WholeJournal before = read_journal(journal(rank));
    remove_journal(journal(rank));
    JournalWriter writer(journal(rank), before.identity);
    std::int64_t seq = 0;
    for (Observation row : before.observations) {
      if (!is_kept(row)) continue;
      row.seq = seq++;
      writer.append(row);
    }
  }

  CellRecord record_;
  LiteralEvidence literal_{2};
};

TEST_F(CellOnDisk, IsReadWhereItIsWhole) {
  write();
  const auto evidence = read();
  EXPECT_THAT(evidence->notes(), IsEmpty());
  EXPECT_EQ(evidence->rows(1), 4);
  EXPECT_EQ(evidence->collectives(1)->size(), 1U);
}

TEST_F(CellOnDisk, RefusesAJournalOfAnotherRank) {
  write();
  copy(journal(0), journal(1));
  EXPECT_THAT(refusal(),
              HasSubstr("rank-1.csv: expected a file of rank 1 of a-scenario/a-variant/w2 "
                        "with seed 0 and 2 steps, found 'rank 0 of "));
}

TEST_F(CellOnDisk, RefusesValuesOfAnotherRank) {
  write();
  exchange(snapshot_file(folder(), 0, 2), snapshot_file(folder(), 1, 2));
  EXPECT_THAT(refusal(), HasSubstr("rank-0.step-2.safetensors: expected a file of rank 0 of "));
}

TEST_F(CellOnDisk, RefusesALogOfAnotherRank) {
  write();
  exchange(collective_log_file(folder(), 0), collective_log_file(folder(), 1));
  EXPECT_THAT(refusal(), HasSubstr("collectives-0.bin: expected a log of rank 0, found 'rank 1'"));
}

TEST_F(CellOnDisk, RefusesFilesOfAnotherCell) {
  write();
  record_.cell.variant = "another-variant";
  EXPECT_THAT(refusal(), HasSubstr("a file of rank 0 of a-scenario/another-variant/w2"));
}

TEST_F(CellOnDisk, RefusesAPerturbedReferenceAsTheReference) {
  write(Role::reference);
  exchange(journal(0), journal(1));
  exchange(snapshot_file(folder(), 0, 1), snapshot_file(folder(), 1, 1));
  exchange(snapshot_file(folder(), 0, 2), snapshot_file(folder(), 1, 2));
  EXPECT_THAT(refusal(),
              HasSubstr("expected a file of the reference of a-scenario/a-variant/w2 with "
                        "seed 0 and 2 steps, found 'perturbed reference 1 of "));
}

TEST_F(CellOnDisk, RefusesAJournalWithoutATensorThatAllRanksHad) {
  write();
  for (int rank = 0; rank < 2; ++rank) {
    keep_rows(rank, [](const Observation& row) { return row.name != "b"; });
    for (const std::int64_t step : {1, 2}) {
      const fs::path file = snapshot_file(folder(), rank, step);
      auto tensors = read_safetensors(file);
      std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with("/b"); });
      write_safetensors(file, tensors, process_identity(record_.cell, rank));
    }
  }
  EXPECT_THAT(refusal(), HasSubstr("rank-0.csv: expected the 4 rows that the rank reported, "
                                   "found '2'"));
}

TEST_F(CellOnDisk, RefusesAValueWithoutARow) {
  write();
  for (RankExit& end : record_.exits) end.rows.reset();
  keep_rows(1, [](const Observation& row) { return row.step != 1 || row.name != "b"; });
  EXPECT_THAT(refusal(), HasSubstr("rank-1.step-1.safetensors: expected values with a row in the "
                                   "journal, found '0/pre_step/gradient/b'"));
}

TEST_F(CellOnDisk, RefusesValuesOfAStepWithoutRows) {
  write();
  for (RankExit& end : record_.exits) end.rows.reset();
  keep_rows(1, [](const Observation& row) { return row.step != 2; });
  EXPECT_THAT(refusal(), HasSubstr("rank-1.step-2.safetensors: expected values with a row in the "
                                   "journal, found 'a step without rows'"));
}

TEST_F(CellOnDisk, AllowsTheLastRowToBeTorn) {
  write();
  fs::resize_file(journal(1), fs::file_size(journal(1)) - 3);
  EXPECT_THAT(read()->notes(),
              ElementsAre("rank 1: the last row of its journal was torn and left out"));
}

TEST_F(CellOnDisk, MayLackValues) {
  write();
  for (const std::int64_t step : {1, 2}) fs::remove(snapshot_file(folder(), 1, step));
  const auto evidence = read();
  EXPECT_EQ(evidence->missing_snapshots(1, false), "rank 1: snapshots of steps 1 to 2 are missing");
}

TEST_F(CellOnDisk, RefusesAJournalThatDoesNotNameItsWriter) {
  write();
  const WholeJournal before = read_journal(journal(1));
  remove_journal(journal(1));
  {
    JournalWriter writer(journal(1));
    for (const Observation& row : before.observations) writer.append(row);
  }
  EXPECT_THAT(refusal(), HasSubstr("rank-1.csv: expected a file of rank 1 of "));
  EXPECT_THAT(refusal(), HasSubstr(", found nothing"));
}

TEST_F(CellOnDisk, RefusesARankThatEndedWithoutAJournal) {
  write();
  std::ofstream(journal(1), std::ios::trunc);
  EXPECT_THAT(refusal(),
              HasSubstr("the journal of a rank that ended by itself is missing or empty"));
}

}  // namespace
}  // namespace lockstep
