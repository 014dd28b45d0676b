// What is required of every scenario of the registry, whatever it is about.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "harness/verdict/pins.h"
#include "reports/formats/alike_scenario.h"
#include "reports/record/json.h"
#include "tests/command.h"
#include "tests/programs.h"
#include "tests/record/whole_journal.h"

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

/// Every scenario that a report of a job may name.
std::vector<AlikeScenario> alike_scenarios() {
  std::vector<JobRecord> jobs;
  for (const std::string& reason : all_names<NoReduction>()) {
    jobs.emplace_back().unreduced = {
        {.reason = parse<NoReduction>(reason).value(), .explains = true}};
  }
  for (const std::string& fault : all_names<MismatchFault>()) {
    jobs.emplace_back().mismatch.emplace().fault = parse<MismatchFault>(fault).value();
  }
  for (const std::string& kind : all_names<FindingKind>()) {
    jobs.emplace_back().results.emplace_back().findings.emplace_back().kind =
        parse<FindingKind>(kind).value();
  }
  for (const AlikeError& alike : kAlikeErrors) {
    RankFailure failure;
    failure.error = "RuntimeError: " + std::string(alike.text);
    jobs.emplace_back().results.emplace_back().findings.emplace_back().failure = failure;
  }
  std::vector<AlikeScenario> alike;
  for (JobRecord& job : jobs) {
    job.results.emplace_back().verdict = Verdict::violated;
    if (const auto one = alike_scenario(job)) alike.push_back(*one);
  }
  return alike;
}

TEST(Registry, HasEveryScenarioThatAReportNames) {
  std::map<std::string, nlohmann::json> listed;
  const auto catalogue = nlohmann::json::parse(run_shell(kLockstep + " list --format json").out);
  for (const auto& scenario : catalogue.at("scenarios")) listed[scenario.at("id")] = scenario;
  const std::vector<AlikeScenario> alike = alike_scenarios();
  EXPECT_GE(alike.size(), kAlikeErrors.size() + 8);
  for (const AlikeScenario& one : alike) {
    std::set<std::string_view> fixes;
    for (const auto& variant : listed[std::string(one.id)]["variants"]) {
      if (variant.at("role") == "fixed")
        fixes.insert(variant.at("name").get_ref<const std::string&>());
    }
    fixes.insert("");  // the second of a scenario with one
    for (const std::string_view fix : one.fixes) EXPECT_TRUE(fixes.contains(fix)) << one.id << fix;
    EXPECT_NE(one.fixes[0], "") << one.id;
  }
  for (const AlikeError& error : kAlikeErrors) {
    const std::string raised = listed[std::string(error.scenario.id)]["variants"].dump();
    EXPECT_THAT(raised, testing::HasSubstr(std::string(error.text))) << error.scenario.id;
  }
}

class EveryScenario : public testing::TestWithParam<std::string> {
 protected:
  Outcome run(const std::string& name, const std::string& options, const std::string& ranks) const {
    return run_named(name, GetParam(), options, ranks);
  }
  /// `cells`: scenarios, or variants of one.
  Outcome run_named(const std::string& name, const std::string& cells, const std::string& options,
                    const std::string& ranks) const {
    return run_shell(fmt::format("{} run {} --ranks {} {} --out {}", kLockstep, cells, ranks,
                                 options, path(name).string()));
  }
  nlohmann::json record_of(const std::string& name) const {
    return nlohmann::json::parse(text_of(path(name) / "record.json"));
  }
  /// `on_cpu`: a run whose cells are on the CPU.
  void expect_its_values_on_virtual_devices(const std::string& on_cpu) const;
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
         end.at("cause") == "no progress" || end.at("cause") == "peer failed";
}

/// Whether a rank died or raised by itself: its peers lose it, or wait until their limit.
bool has_failed(const nlohmann::json& cell) {
  const auto& exits = cell.at("exits");
  return std::any_of(exits.begin(), exits.end(), [](const nlohmann::json& end) {
    return end.at("cause") == "none" && end.at("kind") != "finished";
  });
}

/// Whether ranks were ended because they waited too long. They are ended one after the other, so
/// one may lose its peer before its own end.
bool was_ended_at_a_limit(const nlohmann::json& cell) {
  const auto& exits = cell.at("exits");
  return std::any_of(exits.begin(), exits.end(), [](const nlohmann::json& end) {
    return end.at("cause") == "no progress" || end.at("cause") == "time limit";
  });
}

/// Without the clock fields, which are declared to differ.
nlohmann::json without_declared_fields(nlohmann::json cell) {
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
  const bool may_lose_peer = has_failed(cell) || was_ended_at_a_limit(cell);
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
    // A rank that lost a peer says by which of its ports, and in what words is the kernel's.
    if (end.at("error").get<std::string>().find("gloo/transport") == std::string::npos) continue;
    end.erase("error");
    end.erase("last_output");
  }
  remove_warnings(cell);
  return cell;
}

/// Host, clock, and the folder that was asked for are declared to differ.
nlohmann::json without_declared_fields_of_run(nlohmann::json record) {
  record.erase("command");
  record.at("environment").erase("started_utc");
  record.at("environment").erase("host");
  for (auto& cell : record.at("cells")) cell = without_declared_fields(cell);
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

void expect_the_same_files(const fs::path& first, const fs::path& second) {
  const auto files = journals_and_values(first);
  ASSERT_FALSE(files.empty()) << first;
  EXPECT_EQ(files, journals_and_values(second)) << first;
  for (const fs::path& file : files) {
    EXPECT_EQ(text_of(first / file), text_of(second / file)) << first / file;
  }
}

nlohmann::json record_in(const fs::path& run) {
  return nlohmann::json::parse(text_of(run / "record.json"));
}

/// Two runs of the same cells.
void expect_the_same(const fs::path& first, const fs::path& second) {
  expect_the_same_files(first, second);
  EXPECT_EQ(without_declared_fields_of_run(record_in(first)),
            without_declared_fields_of_run(record_in(second)));
}

/// The cells that were run, by their folders.
std::map<std::string, nlohmann::json> cells_that_ran(const nlohmann::json& record) {
  std::map<std::string, nlohmann::json> cells;
  for (const auto& cell : record.at("cells")) {
    if (cell.at("processes") > 0) cells[cell.at("folder")] = cell;
  }
  return cells;
}

/// Two runs, of which each may have cells that the other has not. Returns the folders of those that
/// both have.
std::set<std::string> expect_the_same_of_common_cells(const fs::path& first,
                                                      const fs::path& second) {
  std::set<std::string> common;
  const auto again = cells_that_ran(record_in(second));
  for (const auto& [folder, cell] : cells_that_ran(record_in(first))) {
    const auto found = again.find(folder);
    if (found == again.end()) continue;
    common.insert(folder);
    expect_the_same_files(first / folder, second / folder);
    EXPECT_EQ(without_declared_fields(cell), without_declared_fields(found->second));
  }
  return common;
}

/// The first variant of each role of which no cell is among `compared`.
std::set<std::string> variants_to_compare(const nlohmann::json& record,
                                          const std::set<std::string>& compared) {
  std::map<std::string, std::string> of_role;
  for (const bool is_compared : {true, false}) {
    for (const auto& [folder, cell] : cells_that_ran(record)) {
      if (compared.contains(folder) != is_compared) continue;
      const auto& shown = cell.at("cell");
      of_role.try_emplace(shown.at("role").get<std::string>(),
                          is_compared ? "" : shown.at("variant").get<std::string>());
    }
  }
  std::set<std::string> variants;
  for (const auto& [role, variant] : of_role) {
    if (!variant.empty()) variants.insert(variant);
  }
  return variants;
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

/// Digests of a rank's values, by step, micro-batch, phase and name; without notes of memory.
std::map<std::string, Digest> values_in(const fs::path& journal) {
  std::map<std::string, Digest> values;
  for (const Observation& row : read_journal(journal).observations) {
    if (row.kind == Kind::memory) continue;
    values[fmt::format("step {} micro-batch {} {} {} {}", row.step, row.micro_batch,
                       name(row.phase), name(row.kind), row.name)] = row.digest;
  }
  return values;
}

/// Bytes that a rank has noted of its device at the end of steps.
std::vector<std::int64_t> allocations_in(const fs::path& journal) {
  std::vector<std::int64_t> bytes;
  for (const Observation& row : read_journal(journal).observations) {
    if (!row.name->starts_with("allocated on sim:")) continue;
    bytes.push_back(static_cast<std::int64_t>(row.statistics.norm));
  }
  return bytes;
}

/// The variants whose cells are repeated on virtual devices: the first of each role that runs
/// there.
std::vector<std::string> variants_for_devices(const nlohmann::json& record) {
  std::vector<std::string> variants;
  for (const char* role : {"buggy", "fixed"}) {
    for (const auto& cell : record.at("cells")) {
      const bool has_ended = cell.at("expectation").at("raises").empty() && !has_failed(cell);
      if (cell.at("cell").at("role") != role || cell.at("processes") == 0 || !has_ended) continue;
      variants.push_back(cell.at("cell").at("variant"));
      break;
    }
  }
  return variants;
}

/// `cpu` and `sim`: folders of the same cell on the CPU and on virtual devices.
void expect_the_values_of_the_cpu(const fs::path& cpu, const fs::path& sim) {
  for (int rank = 0; fs::exists(cpu / fmt::format("rank-{}.csv", rank)); ++rank) {
    const std::string journal = fmt::format("rank-{}.csv", rank);
    const auto values = values_in(cpu / journal);
    EXPECT_FALSE(values.empty()) << cpu;
    EXPECT_EQ(values_in(sim / journal), values) << sim;
    EXPECT_THAT(allocations_in(sim / journal),
                testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(testing::Gt(0))))
        << sim << ": the rank computes beside its device";
  }
}

void EveryScenario::expect_its_values_on_virtual_devices(const std::string& on_cpu) const {
  const nlohmann::json cpu = record_of(on_cpu);
  const std::vector<std::string> variants = variants_for_devices(cpu);
  ASSERT_FALSE(variants.empty());
  std::string cells;
  for (const std::string& variant : variants) cells += fmt::format(" {}/{}", GetParam(), variant);
  const Outcome outcome = run_named("sim", cells, "--device sim", "2");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::size_t compared = 0;
  const nlohmann::json sim = record_of("sim");
  for (const auto& cell : sim.at("cells")) {
    for (const auto& other : cpu.at("cells")) {
      if (other.at("cell").at("variant") != cell.at("cell").at("variant")) continue;
      ++compared;
      expect_the_values_of_the_cpu(path(on_cpu) / other.at("folder").get<std::string>(),
                                   path("sim") / cell.at("folder").get<std::string>());
    }
  }
  EXPECT_GT(compared, variants.size()) << "the variants and their references";
}

// The share of one scenario in the quick tests, about two seconds on two cores: its cells, and
// those of its matrix.
constexpr std::size_t kMostCells = 20;
constexpr std::size_t kMostCellsOfAMatrix = 25;  // the fewest for tiled-gradient-accumulator-...

TEST_P(EveryScenario, IsAsExpectedWithEveryValueOfItsAxesAndGivesTheSameRecordsAgain) {
  const Outcome first = run("first", "", "2");
  EXPECT_EQ(first.status, 0) << first.out << first.err;
  const Outcome report = run_shell(kLockstep + " report " + path("first").string());
  EXPECT_EQ(report.status, 0) << report.err;
  const nlohmann::json record = record_of("first");
  EXPECT_LE(record.at("cells").size(), kMostCells)
      << "a scenario takes too long for the quick tests: it is two scenarios, or needs an axis";
  expect_that_branch_points_are_reached(record);
  expect_that_who_is_right_met(record);
  expect_that_faults_are_known(path("first"));
  expect_that_perturbed_inputs_move_references(path("first"), record);
  // Those that start on another kind are on virtual devices in all tests.
  if (record.at("cells").front().at("cell").at("device") == "cpu") {
    expect_its_values_on_virtual_devices("first");
  }

  // Every variant, and every value in one of them; more where they fit.
  const Outcome matrix =
      run("matrix", fmt::format("--matrix --max-cells {}", kMostCellsOfAMatrix), "2");
  EXPECT_EQ(matrix.status, 0) << matrix.out << matrix.err;
  EXPECT_THAT(matrix.out, testing::HasSubstr("matrix:"));
  expect_that_who_is_right_met(record_of("matrix"));
  expect_that_faults_are_known(path("matrix"));

  // The matrix has run some cells again, often all. Of each role at least one is compared.
  const auto compared = expect_the_same_of_common_cells(path("first"), path("matrix"));
  const auto variants = variants_to_compare(record, compared);
  if (variants.empty()) return;
  std::string others;
  for (const std::string& variant : variants) others += fmt::format(" {}/{}", GetParam(), variant);
  const Outcome second = run_named("second", others, "", "2");
  EXPECT_EQ(second.status, 0) << second.out << second.err;
  EXPECT_GE(expect_the_same_of_common_cells(path("first"), path("second")).size(), variants.size());
}

/// Longer than a quick test may take.
class EveryScenarioAtLength : public EveryScenario {};

/// All cells again.
TEST_P(EveryScenarioAtLength, GivesTheSameRecordAgain) {
  for (const char* name : {"first", "second"}) {
    const Outcome outcome = run(name, "", "2");
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }
  expect_the_same(path("first"), path("second"));
}

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

TEST_P(EveryScenarioAtLength, IsAsExpectedOnVirtualDevices) {
  const Outcome outcome = run("run", "--device sim --matrix --max-cells 150", "2");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_that_faults_are_known(path("run"));
}

/// With every pair of values, and with all of them if these are few.
TEST_P(EveryScenarioAtLength, IsAsExpectedWithEveryPairOfValuesOfItsAxes) {
  std::string folder = "run";
  Outcome outcome = run(folder, "--matrix --max-cells 150", "2");
  const bool has_more_pairs = outcome.out.find("covering every axis value") != std::string::npos;
  if (has_more_pairs) {
    folder = "longer";
    outcome = run(folder, "--matrix --max-cells 550", "2");
  }
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_that_faults_are_known(path(folder));
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
