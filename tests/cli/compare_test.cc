// `lockstep compare` and `report` on runs that are records alone.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/record/json.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A folder `run` with the record of one cell whose ranks were killed before they observed a thing.
class OnARecord : public testing::Test {
 protected:
  OnARecord() {
    RunRecord run = literal_run();
    run.cells.resize(1);
    run.cells.front().reference_folder.clear();
    run.planned = counts_of(run);
    for (RankExit& end : run.cells.front().exits) end = {end.rank, ExitKind::signalled, 9};
    fs::create_directories(folder_.path() / "run" / run.cells.front().folder);
    write_text(folder_.path() / "run/record.json", render_json(run));
  }
  fs::path path() const { return folder_.path(); }
  Outcome lockstep(const std::string& arguments) const {
    return run_shell("cd " + path().string() + " && LOCKSTEP_CATALOGUE=/nowhere " + kLockstep +
                     " " + arguments);
  }
  void write_table(const std::string& name, const std::string& rows) const {
    write_text(path() / name,
               "scenario,variant,world_size,quantity,kind,phase,tensor,element,step,step_base,rank,"
               "printed,definition,source\n" +
                   rows);
  }

 private:
  TemporaryFolder folder_;
};

/// A drift of the whole of `weight` after a step.
std::string drift(const std::string& cell, int world_size, int step) {
  return fmt::format("{},{},drift,parameter,post_step,weight,0,{},1,-1,0.5,max,x\n", cell,
                     world_size, step);
}

TEST_F(OnARecord, ReportTakesTheRecordForItsFolder) {
  const Outcome named = lockstep("report run/record.json");
  EXPECT_EQ(named.status, 1) << named.err;
  EXPECT_EQ(named.out, lockstep("report run").out);
  EXPECT_EQ(run_shell(fmt::format("cd {} && {} report record.json --format csv",
                                  (path() / "run").string(), kLockstep))
                .out,
            lockstep("report run --format csv").out);
  EXPECT_EQ(lockstep("compare opentslm-49-drift run/record.json").out,
            lockstep("compare opentslm-49-drift run").out);
}

TEST_F(OnARecord, CompareTakesTheNameOfATableThatComesWithLockstep) {
  const std::string file = LOCKSTEP_SOURCE_DIR "/reference/published/opentslm-49-drift.csv";
  const Outcome named = lockstep("compare opentslm-49-drift run");
  EXPECT_EQ(named.out, lockstep("compare " + file + " run").out);
  EXPECT_THAT(named.out, HasSubstr("opentslm-49-drift: 0 of "));
}

TEST_F(OnARecord, CompareSaysWhichCellsAreNotInTheRunAndHowToRunThem) {
  write_table("mine.csv", drift("other,one", 1, 1) + drift("other,two", 4, 1) +
                              drift("other,two", 4, 2) + drift("other,two", 65, 1));
  const Outcome outcome = lockstep("compare mine.csv run");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(
      outcome.out,
      "mine: 0 of 4 published values are met to the printed digit.\n"
      "not in this run: other/one on 1 rank (1 value). Run: lockstep run other/one --ranks 1\n"
      "not in this run: other/two on 4 ranks (2 values). Run: lockstep run other/two "
      "--ranks 4\n"
      "not in this run: other/two on 65 ranks (1 value). 'lockstep run' starts up to 64 ranks\n");
}

TEST_F(OnARecord, CompareSaysWhichStepsOfACellThatWasRunAreNotMeasured) {
  const RunRecord run = literal_run();
  const Cell& cell = run.cells.front().cell;
  std::string rows;
  for (const int step : {3, 1, 2}) {
    rows += drift(cell.scenario + "," + cell.variant, cell.world_size, step);
  }
  write_table("mine.csv", rows);
  const Outcome outcome = lockstep("compare mine.csv run");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format("not measured: {}/{} on {} ranks, 3 values in steps 1 to 3\n",
                                    cell.scenario, cell.variant, cell.world_size)));
  EXPECT_THAT(outcome.out, Not(HasSubstr("not in this run")));
}

TEST_F(OnARecord, CompareNamesArgumentsThatAreSwapped) {
  write_table("mine.csv", drift("other,one", 1, 1));
  const Outcome swapped = lockstep("compare run mine.csv");
  EXPECT_EQ(swapped.status, 64);
  EXPECT_EQ(swapped.err,
            "lockstep: run is the folder of a run and mine.csv is a table: the table comes first. "
            "Give: compare mine.csv run\n");
  const Outcome runs = lockstep("compare run run/record.json");
  EXPECT_EQ(runs.status, 64);
  EXPECT_THAT(runs.err, AllOf(HasSubstr("run and run/record.json are both folders of runs."),
                              HasSubstr("reference/published")));
}

}  // namespace
}  // namespace lockstep
