// Options of `run` that select cells and reports.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/command.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A run in its own folder.
class RunWith {
 public:
  explicit RunWith(const std::string& arguments)
      : outcome_(run_shell(kLockstep + " run " + arguments + " --out " + path().string())) {}

  const Outcome& outcome() const { return outcome_; }
  fs::path path() const { return folder_.path() / "run"; }

  /// The folders of a variant's cells.
  std::set<std::string> cells(const std::string& variant) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path() / variant)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

 private:
  TemporaryFolder folder_;
  Outcome outcome_;
};

TEST(MatrixOption, RunsEveryValueOfTheAxesThatAreNotSet) {
  const RunWith run(
      "loss-on-unwrapped-module/bypass-armed-every-kth-step --steps 3 --set optimizer=sgd "
      "--matrix");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  EXPECT_THAT(run.cells("loss-on-unwrapped-module/bypass-armed-every-kth-step"),
              ElementsAre("w2", "w2-k=3"));
  EXPECT_THAT(run.cells("loss-on-unwrapped-module/reference"), ElementsAre("w2"));
  EXPECT_THAT(run.outcome().out, HasSubstr("matrix: 3 cells, every combination of axis values"));
}

TEST(MatrixOption, OfAReportIsStillToldAfterwards) {
  const RunWith run("test-never-ran-the-changed-path/before-the-fix --matrix --steps 1");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  const Outcome report = run_shell(kLockstep + " report " + run.path().string());
  EXPECT_THAT(report.out, HasSubstr("matrix: 2 cells"));
}

TEST(RepeatOption, RunsEveryCellAgainInAFolderOfItsOwn) {
  const RunWith run("test-never-ran-the-changed-path/fix-tested-by-a-launcher --repeat 2");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  for (const char* variant : {"fix-tested-by-a-launcher", "reference"}) {
    EXPECT_THAT(run.cells(std::string("test-never-ran-the-changed-path/") + variant),
                ElementsAre("w2", "w2-repetition=2"));
  }
  EXPECT_THAT(run.outcome().out, HasSubstr("2 of 2 repetitions as expected"));
}

TEST(RepeatOption, TellsWhereARepetitionIsAnother) {
  const RunWith run("test-never-ran-the-changed-path/fix-tested-by-a-launcher --repeat 2");
  const fs::path cells = run.path() / "test-never-ran-the-changed-path/fix-tested-by-a-launcher";
  const fs::path journal = cells / "w2-repetition=2/rank-1.csv";
  std::string text = text_of(journal);
  text[text.size() - 2] = '1';  // non-finite elements of its last observation
  write_text(journal, text);
  const Outcome report = run_shell(kLockstep + " report " + run.path().string());
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(report.out, HasSubstr("rank 1 observed a different bias in step 3"));
}

TEST(FormatOption, WritesWhatReportShows) {
  const RunWith run("test-never-ran-the-changed-path --format junit,markdown,csv,json");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  for (const auto& [format, file] : {std::pair("junit", "report.xml"),
                                     {"markdown", "report.md"},
                                     {"csv", "report.csv"},
                                     {"json", "report.json"}}) {
    const Outcome report =
        run_shell(fmt::format("{} report --format {} {}", kLockstep, format, run.path().string()));
    EXPECT_EQ(report.status, 0) << report.err;
    EXPECT_GT(report.out.size(), 500U);
    EXPECT_EQ(report.out, text_of(run.path() / file)) << format;
  }
  EXPECT_THAT(text_of(run.path() / "report.xml"), HasSubstr("<testsuite"));
  EXPECT_THAT(text_of(run.path() / "report.md"), HasSubstr("not triggered"));
}

/// A record without the parts that differ between runs: times, and the number of parallel cells.
nlohmann::json without_clocks(nlohmann::json record) {
  record.at("environment").erase("started_utc");
  record.at("environment").erase("jobs");
  record.erase("command");
  for (auto& cell : record.at("cells")) {
    cell.erase("duration_s");
    for (const char* clock : {"bytes", "digest"}) cell.at("manifest").erase(clock);
    if (!cell.at("cost").is_null()) cell.at("cost").erase("step_s");
    for (auto& end : cell.at("exits")) {
      for (const char* clock : {"step_s", "ended_ns", "step_began_ns", "order"}) end.erase(clock);
    }
  }
  return record;
}

nlohmann::json record_of(const RunWith& run) {
  return nlohmann::json::parse(text_of(run.path() / "record.json"));
}

TEST(JobsOption, ChangesNothingThatIsOnRecord) {
  const std::string cells =
      "loss-on-unwrapped-module missing-gradients-skipped-in-reduction --steps 2 --jobs ";
  const RunWith one(cells + "1 -vv");
  const RunWith six(cells + "6 -vv");
  EXPECT_EQ(one.outcome().status, six.outcome().status) << six.outcome().err;
  const auto alone = without_clocks(record_of(one));
  const auto together = without_clocks(record_of(six));
  ASSERT_EQ(alone.at("cells").size(), together.at("cells").size());
  for (std::size_t i = 0; i < alone.at("cells").size(); ++i) {
    const auto& cell = alone.at("cells").at(i);
    // The supervisor's timing decides when a hanging rank and the others' calls end.
    if (cell.at("cell").at("variant") == "skip-missing") continue;
    EXPECT_EQ(nlohmann::json::diff(cell, together.at("cells").at(i)), nlohmann::json::array())
        << cell.at("folder");
  }
  EXPECT_EQ(alone.at("tables"), together.at("tables"));
  EXPECT_EQ(record_of(six).at("environment").at("jobs"), 6);
  EXPECT_THAT(six.outcome().out, HasSubstr("while other cells used the same cores"));
  EXPECT_THAT(one.outcome().out, HasSubstr("median step, rough on busy cores"));
}

TEST(NotTriggered, IsToldAndIsNoFailureWhereItWasDeclared) {
  const RunWith run("test-never-ran-the-changed-path/fix-tested-in-a-notebook");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  EXPECT_THAT(run.outcome().out,
              AllOf(HasSubstr("not triggered, as declared"), HasSubstr("does not test it"),
                    Not(HasSubstr("but a rank reached"))));
}

struct Refused {
  const char* arguments;
  const char* said;
};

class RefusedOption : public testing::TestWithParam<Refused> {};

TEST_P(RefusedOption, RunsNothing) {
  const RunWith run(GetParam().arguments);
  EXPECT_EQ(run.outcome().status, 64) << run.outcome().out;
  EXPECT_THAT(run.outcome().err, HasSubstr(GetParam().said));
  EXPECT_EQ(run.outcome().out, "");
  EXPECT_FALSE(fs::exists(run.path()));
}

INSTANTIATE_TEST_SUITE_P(
    Cli, RefusedOption,
    testing::Values(
        Refused{"loss-on-unwrapped-module/bypass-armed-every-kth-step --matrix --max-cells 3",
                "give at least 4,"},
        Refused{"loss-on-unwrapped-module/all-reduce-each --matrix --max-cells 1",
                "--max-cells cannot be '1': give at least 4,"},
        Refused{"tiled-backward-fires-hooks-per-tile --set tiles=0", "1, 2, 3, 4, 8"},
        Refused{"tiled-backward-fires-hooks-per-tile --set tiles=9", "1, 2, 3, 4, 8"},
        Refused{"tiled-backward-fires-hooks-per-tile --set batch=-1",
                "no value of axis batch '-1'"},
        Refused{"tiled-backward-fires-hooks-per-tile --set prior=maybe", "off, on"},
        Refused{"tiled-backward-fires-hooks-per-tile --set colour=blue", "no axis 'colour'"},
        Refused{"--backend npi", "There is no backend 'npi'. Did you mean 'mpi'?"},
        Refused{"--backend ucc", "There is no backend 'ucc'."}, Refused{"--backend ''", "empty"},
        Refused{"--device gpu", "--device cannot be 'gpu': give one of cpu, sim, cuda."},
        Refused{"--device ''", "empty"},
        Refused{"--device cpu,sim", "--device cannot be 'cpu,sim'"},
        Refused{"--max-cells 5", "together with --matrix"},
        Refused{"--matrix --max-cells 0", "from 1 to 1000000"},
        Refused{"--matrix --max-cells x", "from 1 to 1000000"},
        Refused{"--matrix --max-cells ''", "empty"}, Refused{"--repeat 0", "from 1 to 10000"},
        Refused{"--jobs 0", "from 1 to 64"}, Refused{"--jobs 65", "from 1 to 64"},
        Refused{"--jobs x", "from 1 to 64"}, Refused{"--jobs ''", "empty"},
        Refused{"loss-on-unwrapped-module/bypass --launcher 'true {ranks}' --jobs 2",
                "--jobs cannot be '2': give 1 if a launcher starts the ranks"},
        Refused{"--repeat x", "from 1 to 10000"}, Refused{"--repeat -1", "from 1 to 10000"},
        Refused{"--repeat 2.5", "from 1 to 10000"}, Refused{"--repeat ''", "from 1 to 10000"},
        Refused{"loss-on-unwrapped-module/through-wrapper --set k=3", "no axis 'k'"},
        Refused{"missing-gradients-skipped-in-reduction/skip-missing --set differs=same-shape",
                "'same-shapes'"}));

}  // namespace
}  // namespace lockstep
