#include "reports/record/joined_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/record/finding_key.h"
#include "reports/record/json.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

RunRecord joined() {
  return join_records({{"runs/a", "runs/a", literal_run()}, {"runs/b", "runs/b", literal_run()}});
}

TEST(JoinedRecord, OfOneRunIsThatRun) {
  EXPECT_EQ(render_json(join_records({{"runs/a", "runs/a", literal_run()}})),
            render_json(literal_run()));
  EXPECT_EQ(join_records({}), RunRecord{});
}

TEST(JoinedRecord, HasTheCellsOfAllRunsAsRepetitions) {
  const RunRecord run = joined();
  ASSERT_EQ(run.cells.size(), 20U);
  EXPECT_EQ(run.cells[0].cell.repetition, 1);
  EXPECT_EQ(run.cells[10].cell.repetition, 2);
  EXPECT_EQ(run.cells[10].folder, "runs/b/" + literal_run().cells[0].folder);
  EXPECT_EQ(run.cells[11].cell.repetition, 4) << "after the three of the first run";
  EXPECT_EQ(run.cells[13].cell.repetition, 6);
  EXPECT_EQ(keys_of(run), keys_of(literal_run())) << "a repetition has the same keys";
}

TEST(JoinedRecord, HasTheWorstStatusAndIsAValidRecord) {
  RunRecord green = literal_run();
  green.cells = {literal_fixed(1)};
  const RunRecord run =
      join_records({{"runs/a", "runs/a", green}, {"runs/b", "runs/b", literal_run()}});
  EXPECT_EQ(exit_status(run), ExitStatus::failed);
  EXPECT_EQ(run.planned, counts_of(run));
  EXPECT_EQ(read_json(render_json(run), "record.json").planned, run.planned);
}

TEST(JoinedRecord, SaysWhichJobIsWhoseIfTheyAreCalledAlike) {
  RunRecord one;
  one.jobs = {literal_job("aa")};
  RunRecord other = one;
  const RunRecord alike = join_records({{"a", "a", one}, {"b", "b", other}});
  EXPECT_THAT(alike.jobs[1].notes, ElementsAre("this job is in b"));
  EXPECT_EQ(alike.jobs[1].folder, "b/aa");
  other.jobs[0].title = "another";
  EXPECT_THAT(join_records({{"a", "a", one}, {"b", "b", other}}).jobs[1].notes, IsEmpty());
}

TEST(JoinedRecord, LeavesTheFoldersOfSeveralMachinesAsTheyAre) {
  RunRecord one;
  one.jobs = {literal_job("aa")};
  EXPECT_EQ(join_records({{"a b", "", one}, {"c", "c", one}}).jobs[0].folder, "aa");
}

TEST(JoinedRecord, NamesTheRunOfATableThatIsThereTwice) {
  const RunRecord run = joined();
  EXPECT_EQ(run.tables[0].spec.title, literal_run().tables[0].spec.title);
  EXPECT_EQ(run.tables[4].spec.title, literal_run().tables[0].spec.title + " (runs/b)");
}

TEST(JoinedRecord, SaysWhatIsFromWhichRunAndWhichVersion) {
  RunRecord other = literal_run();
  other.environment.torch_version = "2.12.0";
  const RunRecord run = join_records({{"a", "a", literal_run()}, {"b", "b", other}});
  EXPECT_THAT(run.notes, Contains("a: 10 cells"));
  EXPECT_THAT(run.notes, Contains("a: " + literal_run().notes[0]));
  EXPECT_THAT(run.notes,
              Contains("b: 10 cells; Lockstep 0.1.0, torch 2.12.0, g++ 12.2, on node-1"));
  EXPECT_THAT(run.command, ElementsAre("lockstep", "report", "a", "b"));
  other.environment.compiler.clear();  // of a watched job
  EXPECT_THAT(join_records({{"a", "a", literal_run()}, {"b", "b", other}}).notes,
              Contains("b: 10 cells; Lockstep 0.1.0, torch 2.12.0, on node-1"));
}

}  // namespace
}  // namespace lockstep
