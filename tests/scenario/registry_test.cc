// What is required of every scenario of the registry, whatever it is about.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/command.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const std::string kLockstep = LOCKSTEP_PROGRAM;

std::vector<std::string> scenario_ids() {
  std::vector<std::string> ids;
  for (const std::string& line : lines_of(run_shell(kLockstep + " list").out)) {
    if (!line.empty() && line[0] != ' ') ids.push_back(line);
  }
  return ids;
}

class EveryScenario : public testing::TestWithParam<std::string> {
 protected:
  Outcome run(const std::string& name, const std::string& options) const {
    return run_shell(fmt::format("{} run {} --ranks 2,3,4 {} --out {}", kLockstep, GetParam(),
                                 options, (folder_.path() / name).string()));
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
};

/// Clock and host fields, and the folder that was asked for, are declared to differ.
nlohmann::json without_declared_fields(const fs::path& folder) {
  auto record = nlohmann::json::parse(text_of(folder / "record.json"));
  record.erase("command");
  record.at("environment").erase("started_utc");
  record.at("environment").erase("host");
  for (auto& cell : record.at("cells")) {
    cell.erase("duration_s");
    if (!cell.at("cost").is_null()) cell.at("cost").erase("step_s");
    for (auto& end : cell.at("ends")) {
      end.erase("order");
      end.erase("step_s");
    }
  }
  return record;
}

std::vector<fs::path> journals_and_values(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".safetensors" || extension == ".csv") {
      files.push_back(fs::relative(entry.path(), folder));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_P(EveryScenario, IsAsExpectedOnTwoThreeAndFourRanks) {
  const Outcome outcome = run("run", "");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

TEST_P(EveryScenario, IsAsExpectedWithAnotherSeedAndMoreSteps) {
  const Outcome outcome = run("run", "--seed 7 --steps 20");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

TEST_P(EveryScenario, GivesTheSameRecordAgain) {
  run("first", "");
  run("second", "");
  const auto files = journals_and_values(path("first"));
  ASSERT_FALSE(files.empty());
  EXPECT_EQ(files, journals_and_values(path("second")));
  for (const fs::path& file : files) {
    EXPECT_EQ(text_of(path("first") / file), text_of(path("second") / file)) << file;
  }
  EXPECT_EQ(without_declared_fields(path("first")), without_declared_fields(path("second")));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryScenario, testing::ValuesIn(scenario_ids()),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
