// What is required of every scenario of the registry, whatever it is about.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "harness/verdict/pins.h"
#include "reports/record/json.h"
#include "tests/command.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// As the build lists them: the program is not asked, since every test of this test program would.
std::vector<std::string> scenario_ids() {
  std::vector<std::string> ids;
  std::istringstream list(LOCKSTEP_SCENARIOS);
  for (std::string id; std::getline(list, id, ',');) ids.push_back(id);
  return ids;
}

TEST(Registry, HasTheScenariosThatTheProgramLists) {
  std::vector<std::string> listed;
  const auto catalogue = nlohmann::json::parse(run_shell(kLockstep + " list --format json").out);
  for (const auto& scenario : catalogue.at("scenarios")) {
    listed.push_back(scenario.at("id"));
    for (const auto& [part, text] : scenario.at("provenance").items()) {
      EXPECT_NE(text, "") << scenario.at("id") << ": " << part;
    }
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(scenario_ids()));
}

class EveryScenario : public testing::TestWithParam<std::string> {
 protected:
  Outcome run(const std::string& name, const std::string& options, const std::string& ranks) const {
    return run_shell(fmt::format("{} run {} --ranks {} {} --out {}", kLockstep, GetParam(), ranks,
                                 options, path(name).string()));
  }
  nlohmann::json record_of(const std::string& name) const {
    return nlohmann::json::parse(text_of(path(name) / "record.json"));
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
};

/// Removes torch's warnings that contain the time of day from the output of ranks: that the
/// resolver had no name for a peer's address, which depends on the machine.
void remove_warnings(nlohmann::json& value) {
  if (!value.is_structured()) return;
  for (auto& [key, part] : value.items()) {
    if (key != "last_output" || !part.is_string()) {
      remove_warnings(part);
      continue;
    }
    std::string kept;
    for (const std::string& line : lines_of(part.get<std::string>())) {
      const bool is_warning = line.starts_with("[W") && line.find("socket.cpp") < line.npos;
      if (!is_warning) kept += line + "\n";
    }
    part = kept;
  }
}

bool is_ended_by_peer(const nlohmann::json& end) {
  return end.at("cause") == "lost peer" || end.at("cause") == "time limit" ||
         end.at("cause") == "peer failed";
}

/// Whether a rank died or raised by itself: its peers lose it, or wait until their limit.
bool has_failed(const nlohmann::json& cell) {
  const auto& exits = cell.at("exits");
  return std::any_of(exits.begin(), exits.end(), [](const nlohmann::json& end) {
    return end.at("cause") == "none" && end.at("kind") != "finished";
  });
}

/// Clock and host fields, and the folder that was asked for, are declared to differ.
nlohmann::json without_declared_fields(const fs::path& folder) {
  auto record = nlohmann::json::parse(text_of(folder / "record.json"));
  record.erase("command");
  record.at("environment").erase("started_utc");
  record.at("environment").erase("host");
  for (auto& cell : record.at("cells")) {
    cell.erase("duration_s");
    if (!cell.at("cost").is_null()) cell.at("cost").erase("step_s");
    auto& missed = cell.at("mismatch");
    if (!missed.is_null()) {
      // Whether a rank that waits is ended by its peer's death or by Lockstep is a matter of luck.
      missed.erase("waiting");
      // So is how far a rank gets behind a call that does not fit, before its peer's end is seen.
      auto& rows = missed.at("rows");
      while (!rows.empty() && rows.back().at("number") > missed.at("number")) {
        rows.erase(rows.size() - 1);
      }
      for (auto& row : missed.at("rows")) {
        for (auto& call : row.at("calls")) {
          call.erase("open_s");
          call.erase("is_open");
        }
      }
    }
    const bool may_lose_peer = has_failed(cell);
    // A rank that is ended for its peer may have written its last values or not.
    if (may_lose_peer || cell.at("manifest").is_null()) {
      cell.erase("manifest");
    } else {
      for (const char* clock : {"bytes", "digest"}) cell.at("manifest").erase(clock);
    }
    for (auto& end : cell.at("exits")) {
      // Nor is it known which comes first on a busy machine: a peer's end, or one's own time limit.
      if (!missed.is_null() && may_lose_peer && is_ended_by_peer(end)) {
        end = {{"rank", end.at("rank")},
               {"step", end.at("step")},
               {"line", end.at("line")},
               {"rendezvous", end.at("rendezvous")}};
        continue;
      }
      end.erase("order");
      end.erase("step_s");
      end.erase("ended_ns");
      end.erase("step_began_ns");
      // A rank that lost a peer names a port, in words that depend on the kernel.
      if (end.at("error").get<std::string>().find("gloo/transport") == std::string::npos) continue;
      end.erase("error");
      end.erase("last_output");
    }
  }
  remove_warnings(record);
  return record;
}

std::vector<fs::path> journals_and_values(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (entry.path().filename() == "manifest.csv") continue;  // digests of files with times
    if (extension == ".safetensors" || extension == ".csv" || extension == ".index") {
      files.push_back(fs::relative(entry.path(), folder));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Whether a scenario claims it or not: whose ranks are right, they met.
void expect_that_who_is_right_met(const nlohmann::json& record) {
  for (const auto& cell : record.at("cells")) {
    if (cell.at("symptom").at("kind") != "right") continue;
    EXPECT_TRUE(cell.at("mismatch").is_null()) << cell.at("folder") << cell.at("mismatch");
  }
}

/// Each broken claim needs a pin. Otherwise any other fault that breaks the same claim passes for
/// the declared one.
void expect_that_faults_are_known(const fs::path& run) {
  const RunRecord record = read_json(text_of(run / "record.json"), "record.json");
  for (const CellRecord& cell : record.cells) {
    const Role role = cell.cell.role;
    if (role != Role::buggy && role != Role::wrong_fix) continue;
    EXPECT_EQ(open_part(cell.expectation), "") << title_of(cell.cell);
  }
}

void expect_the_same(const fs::path& first, const fs::path& second) {
  const auto files = journals_and_values(first);
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files, journals_and_values(second));
  for (const fs::path& file : files) {
    EXPECT_EQ(text_of(first / file), text_of(second / file)) << file;
  }
  EXPECT_EQ(without_declared_fields(first), without_declared_fields(second));
}

/// A body that does not pass its inputs through `Rank::input` has perturbed references that are all
/// the same: every tolerance comes from the world size then, however far differences are carried.
void expect_that_perturbed_inputs_move_references(const fs::path& run,
                                                  const nlohmann::json& record) {
  int moved = 0;
  std::set<std::string> references;
  for (const auto& cell : record.at("cells")) {
    for (const auto& result : cell.at("results")) {
      if (result.at("claim").at("predicate") != "equal_reference") continue;
      references.insert(cell.at("reference_folder"));
      // If the largest difference is in a small tensor, its tolerance may be the other one.
      moved += result.at("tolerance_from") == "4 perturbed references" ? 1 : 0;
    }
  }
  EXPECT_TRUE(references.empty() || moved > 0) << "no tolerance comes from perturbations";
  for (const std::string& reference : references) {
    std::set<std::string> journals;
    for (int rank = 0; rank <= 4; ++rank) {
      const std::string journal = text_of(run / reference / fmt::format("rank-{}.csv", rank));
      journals.insert(journal.substr(journal.find('\n')));  // without its writer
    }
    EXPECT_EQ(journals.size(), 5U) << "perturbations of " << reference << " are the same";
  }
}

/// The branch point of a variant, if a rank reached it.
void expect_that_branch_points_are_reached(const nlohmann::json& record) {
  for (const auto& cell : record.at("cells")) {
    const auto& expectation = cell.at("expectation");
    if (expectation.at("not_applicable") != "" || expectation.at("not_triggered") == true) continue;
    const auto& exits = cell.at("exits");
    EXPECT_TRUE(std::any_of(exits.begin(), exits.end(), [](const auto& end) {
      return end.at("line").is_number() && end.at("line") > 0;
    })) << cell.at("folder");
  }
}

// The share of one scenario in the quick tests, about three seconds on two cores: cells that are
// run twice, and cells of its matrix.
constexpr std::size_t kMostCells = 20;
constexpr std::size_t kMostCellsOfAMatrix = 26;

TEST_P(EveryScenario, IsAsExpectedAndGivesTheSameRecordAgain) {
  const Outcome first = run("first", "", "2");
  EXPECT_EQ(first.status, 0) << first.out << first.err;
  const nlohmann::json record = record_of("first");
  EXPECT_LE(record.at("cells").size(), kMostCells)
      << "a scenario takes too long for the quick tests: it is two scenarios, or needs an axis";
  expect_that_branch_points_are_reached(record);
  expect_that_who_is_right_met(record);
  expect_that_faults_are_known(path("first"));
  expect_that_perturbed_inputs_move_references(path("first"), record);
  const Outcome second = run("second", "", "2");
  EXPECT_EQ(second.status, 0) << second.out << second.err;
  expect_the_same(path("first"), path("second"));
}

/// Every variant, and every value in one of them; more if they fit.
TEST_P(EveryScenario, IsAsExpectedWithEveryValueOfItsAxes) {
  const Outcome outcome =
      run("run", fmt::format("--matrix --max-cells {}", kMostCellsOfAMatrix), "2");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("matrix:"));
  expect_that_who_is_right_met(record_of("run"));
  expect_that_faults_are_known(path("run"));
}

/// Longer than a quick test may take.
class EveryScenarioAtLength : public EveryScenario {};

TEST_P(EveryScenarioAtLength, IsAsExpectedWithAnotherSeedAndMoreSteps) {
  const Outcome outcome = run("run", "--seed 7 --steps 10", "3");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

/// Nothing ran if the scenario does not support that many ranks.
TEST_P(EveryScenarioAtLength, IsAsExpectedWithEightRanks) {
  const Outcome outcome = run("run", "", "8");
  EXPECT_THAT(outcome.status, testing::AnyOf(0, 3)) << outcome.out << outcome.err;
  expect_that_who_is_right_met(record_of("run"));
  expect_that_faults_are_known(path("run"));
}

/// With every pair of values, and with all of them if these are few.
TEST_P(EveryScenarioAtLength, IsAsExpectedWithEveryPairOfValuesOfItsAxes) {
  Outcome outcome = run("run", "--matrix --max-cells 150", "2");
  const bool has_more_pairs = outcome.out.find("covering every axis value") != std::string::npos;
  if (has_more_pairs) outcome = run("run", "--matrix --max-cells 550", "2");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_that_faults_are_known(path("run"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("matrix:"));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("covering every axis value")));
}

const auto kScenarios = testing::ValuesIn(scenario_ids());

std::string test_name(const testing::TestParamInfo<std::string>& scenario) {
  std::string name = scenario.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryScenario, kScenarios, test_name);
INSTANTIATE_TEST_SUITE_P(Soak, EveryScenarioAtLength, kScenarios, test_name);

}  // namespace
}  // namespace lockstep
