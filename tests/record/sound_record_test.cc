#include "harness/record/sound_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

CellRecord cell_of(const std::string& variant, Role role, int processes) {
  CellRecord record;
  record.cell.scenario = "scenario";
  record.cell.variant = variant;
  record.cell.role = role;
  record.cell.world_size = 2;
  record.cell.steps = 3;
  record.folder = "scenario/" + variant + "/w2";
  record.processes = processes;
  record.claims = {ranks_finish()};
  for (int rank = 0; rank < processes; ++rank) record.exits.emplace_back().rank = rank;
  return record;
}

/// A record of two cells, which a test modifies.
class SoundRecord : public testing::Test {
 protected:
  SoundRecord() {
    run_.cells = {cell_of("bypass", Role::buggy, 2), cell_of("reference", Role::reference, 5)};
    run_.cells[0].reference_folder = run_.cells[1].folder;
    run_.planned = counts_of(run_);
  }

  std::string refusal() const {
    try {
      require_sound(run_, folder_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "accepted";
  }

  JobRecord& add_job(const std::string& folder, int ranks) {
    JobRecord& job = run_.jobs.emplace_back();
    job.id = "3f9c2a";
    job.folder = folder;
    job.world_size = job.processes = ranks;
    for (int rank = 0; rank < ranks; ++rank) job.exits.emplace_back().rank = rank;
    return job;
  }

  /// The same after the record was planned as it is.
  std::string refusal_as_planned() {
    run_.planned = counts_of(run_);
    return refusal();
  }

  TemporaryFolder folder_;
  RunRecord run_;
};

TEST_F(SoundRecord, IsAccepted) { EXPECT_EQ(refusal(), "accepted"); }

TEST_F(SoundRecord, HasAllCellsThatWerePlanned) {
  run_.cells.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("record.json: expected the 2 cells with 2 claims that were "
                                   "planned, found '1 cell with 1 claim'"));
}

TEST_F(SoundRecord, HasAllClaimsThatWerePlanned) {
  run_.cells[0].claims.clear();
  EXPECT_THAT(refusal(), HasSubstr("found '2 cells with 1 claim'"));
}

TEST_F(SoundRecord, HoldsJobsOfAsManyRanksAsTheLimitSays) {
  add_job("job", 4096).planned_steps = 1;
  EXPECT_EQ(refusal_as_planned(), "accepted");
  run_.jobs.clear();
  add_job("job", 4097);
  EXPECT_THAT(refusal_as_planned(),
              HasSubstr("job with a world size from 1 to 4096, found '4097'"));
}

TEST_F(SoundRecord, HasAllJobsAndTheirClaimsThatWerePlanned) {
  add_job("job", 2).claims = {ranks_finish()};
  run_.planned = counts_of(run_);
  EXPECT_EQ(refusal(), "accepted");
  run_.jobs[0].claims.clear();
  EXPECT_THAT(refusal(), HasSubstr("the 2 cells and 1 job with 3 claims that were planned, found "
                                   "'2 cells and 1 job with 2 claims'"));
  run_.jobs.clear();
  EXPECT_THAT(refusal(), HasSubstr("found '2 cells with 2 claims'"));
}

TEST_F(SoundRecord, RefusesJobsThatCannotHaveBeen) {
  add_job("job", 2).id.clear();
  EXPECT_THAT(refusal_as_planned(), HasSubstr("job with the id of its job"));
  run_.jobs.clear();
  add_job("../job", 2);
  EXPECT_THAT(refusal_as_planned(), HasSubstr("a folder that lies inside that of the run"));
  run_.jobs.clear();
  add_job(run_.cells[0].folder, 2);
  EXPECT_THAT(refusal_as_planned(), HasSubstr("a folder for each cell and each job"));
  run_.jobs.clear();
  add_job("job", 2).planned_steps = 0;
  EXPECT_THAT(refusal_as_planned(), HasSubstr("job with at least 1 planned step"));
  run_.jobs.clear();
  add_job("job", 2).exits.pop_back();
  EXPECT_THAT(refusal_as_planned(), HasSubstr("one end for each of its 2 processes"));
  run_.jobs.clear();
  add_job("job", 2).processes = 1;
  EXPECT_THAT(refusal_as_planned(), HasSubstr("job with 2 processes"));
}

TEST_F(SoundRecord, HasAWorldThatCanBeRun) {
  for (const int size : {0, -1, 4097, 1000000000}) {
    run_.cells[0].cell.world_size = size;
    EXPECT_THAT(refusal(), HasSubstr("with a world size from 1 to 4096, found '" +
                                     std::to_string(size) + "'"));
  }
}

TEST_F(SoundRecord, MayBeOfALauncherThatStartedMoreRanksThanCanBeRun) {
  run_.cells[0] = cell_of("bypass", Role::buggy, 0);
  run_.cells[0].cell.world_size = 128;
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SoundRecord, HasAllPerturbedCopiesOfAReference) {
  run_.cells[1] = cell_of("reference", Role::reference, 1);
  EXPECT_THAT(refusal(), HasSubstr("scenario/reference/w2 with 5 processes, found '1'"));
  run_.cells[1] = cell_of("reference", Role::reference, 6);
  EXPECT_THAT(refusal(), HasSubstr("scenario/reference/w2 with 5 processes, found '6'"));
}

TEST_F(SoundRecord, HasTablesThatCanBeShown) {
  run_.tables.emplace_back().spec.element = -1;
  EXPECT_THAT(refusal(), HasSubstr("a table of an element from 0 on, found '-1'"));
  run_.tables[0].spec.element = 0;
  for (const int digits : {-1, 2'000'000'000}) {
    run_.tables[0].spec.digits = digits;
    EXPECT_THAT(refusal(), HasSubstr("a table with 0 to 17 digits, found"));
  }
}

TEST_F(SoundRecord, HasAProcessForEachRank) {
  run_.cells[0] = cell_of("bypass", Role::buggy, 1);
  EXPECT_THAT(refusal(), HasSubstr("scenario/bypass/w2 with 2 processes, found '1'"));
  run_.cells[0] = cell_of("bypass", Role::buggy, 0);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SoundRecord, HasOneEndForEachProcess) {
  run_.cells[0].exits[1].rank = 0;
  EXPECT_THAT(refusal(), HasSubstr("with one end for each of its 2 processes"));
  run_.cells[0].exits[1].rank = -1;
  EXPECT_THAT(refusal(), HasSubstr("with one end for each of its 2 processes"));
  run_.cells[0].exits.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("found '1 ends of 1 ranks'"));
}

TEST_F(SoundRecord, HasFoldersInsideThatOfTheRun) {
  for (const char* folder : {"/etc", "..", "../../..", "a/../../b", ".", "", "a//../b"}) {
    run_.cells[0].folder = folder;
    EXPECT_THAT(refusal(), HasSubstr("expected a folder that lies inside that of the run"))
        << folder;
  }
}

TEST_F(SoundRecord, QuotesWhatAFolderMustNotHold) {
  run_.cells[0].folder = std::string("scenario\0/bypass", 16);
  EXPECT_THAT(refusal(), HasSubstr("found 'scenario\\x00/bypass'."));
}

TEST_F(SoundRecord, FollowsNoLinkOutOfTheFolderOfTheRun) {
  const TemporaryFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), folder_.path() / "scenario");
  EXPECT_THAT(refusal(), HasSubstr("scenario/bypass/w2 inside the folder of the run, found 'a link "
                                   "that leads out of it'"));
}

TEST_F(SoundRecord, HasAFolderForEachCell) {
  run_.cells[1].folder = run_.cells[0].folder;
  EXPECT_THAT(refusal(), HasSubstr("expected a folder for each cell"));
}

TEST_F(SoundRecord, NamesAReferenceThatIsOne) {
  const std::string expected = "expected the folder of a reference of scenario/bypass/w2";
  run_.cells[0].reference_folder = run_.cells[0].folder;
  EXPECT_THAT(refusal(), HasSubstr(expected));
  run_.cells[0].reference_folder = "/etc";
  EXPECT_THAT(refusal(), HasSubstr(expected));
  run_.cells[0].reference_folder = run_.cells[1].folder;
  run_.cells[1].cell.seed = 1;
  EXPECT_THAT(refusal(), HasSubstr(expected));
}

TEST_F(SoundRecord, NeedsNoReferenceOfACellThatWasNotRun) {
  run_.cells[0] = cell_of("bypass", Role::buggy, 0);
  run_.cells[0].reference_folder = "scenario/none/w2";
  EXPECT_EQ(refusal(), "accepted");
}

}  // namespace
}  // namespace lockstep
