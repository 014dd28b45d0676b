// Ranks that end at random collectives: the right one is named in time, and nothing is left behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "tests/scenarios/seeds.h"
#include "tests/scenarios/testbed_run.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kLimitSeconds = 2;  // of the testbed's faulty cells
constexpr double kGraceSeconds = 5;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.insert(entry.path().filename());
  }
  return names;
}

/// Files of other programs there do not count.
std::set<std::string> shared_memory() {
  std::set<std::string> ours;
  for (const std::string& name : names_in("/dev/shm")) {
    for (const char* word : {"lockstep", "torch", "gloo"}) {
      if (name.find(word) != std::string::npos) ours.insert(name);
    }
  }
  return ours;
}

/// Processes whose environment holds `mark`.
int processes_with(const std::string& mark) {
  int count = 0;
  for (const std::string& name : names_in("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_if_there(fs::path("/proc") / name / "environ").find(mark) != std::string::npos)
      ++count;
  }
  return count;
}

/// The rank chosen to end prints that first; -1 if none has.
int planted_rank(const fs::path& cell, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    const std::string log = text_if_there(cell / fmt::format("rank-{}.log", rank));
    if (log.find("planted: ") != std::string::npos) return rank;
  }
  return -1;
}

json findings_of(const json& cell) {
  json findings;
  for (const json& result : cell.at("results")) {
    findings.push_back({result.at("verdict"), result.at("findings")});
  }
  return findings;
}

class RandomFaults : public testing::Test {
 protected:
  /// Runs the cell with a separate folder for temporary files, and judges its files again.
  void run(int seed, const std::string& fault, int ranks) {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "run", temporary = folder.path() / "tmp";
    fs::create_directory(temporary);
    const std::string mark = "LOCKSTEP_TEST_MARK=" + folder.path().string();
    const Outcome outcome = run_shell(
        fmt::format("{} TMPDIR={} {} run collective-faults/faulty --ranks {} --seed {} "
                    "--set fault={} --out {}",
                    mark, temporary.string(), LOCKSTEP_TESTBED, ranks, seed, fault, out.string()));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const json record = json::parse(text_if_there(out / "record.json"), nullptr, false);
    ASSERT_FALSE(record.is_discarded());
    expect_culprit(record.at("cells").at(0), out, ranks);
    expect_same_again(record, out);
    EXPECT_EQ(names_in(temporary), std::set<std::string>());
    EXPECT_EQ(processes_with(mark), 0);
  }

 private:
  static void expect_culprit(const json& cell, const fs::path& out, int ranks) {
    EXPECT_LT(cell.at("duration_s").get<double>(), kLimitSeconds + kGraceSeconds);
    const int planted = planted_rank(out / cell.at("folder").get<std::string>(), ranks);
    ASSERT_GE(planted, 0) << "no rank was ended";
    for (const json& result : cell.at("results")) {
      if (result.at("claim").at("predicate") != "ranks_finish") continue;
      ASSERT_EQ(result.at("findings").size(), 1U) << result.at("findings");
      EXPECT_EQ(result.at("findings")[0].at("failure").at("rank"), planted);
    }
  }

  static void expect_same_again(const json& record, const fs::path& out) {
    const Outcome again =
        run_shell(fmt::format("{} report {} --format json", LOCKSTEP_TESTBED, out.string()));
    EXPECT_EQ(again.status, 0) << again.err;
    const json judged = json::parse(again.out, nullptr, false);
    ASSERT_FALSE(judged.is_discarded()) << again.out;
    EXPECT_EQ(judged.at("cells").at(0).at("verdict"), record.at("cells").at(0).at("verdict"));
    EXPECT_EQ(findings_of(judged.at("cells").at(0)), findings_of(record.at("cells").at(0)));
  }
};

TEST_F(RandomFaults, AreNamedInTimeAndNothingStaysBehind) {
  const std::set<std::string> before = shared_memory();
  const std::vector<std::string> faults{"kill", "stop", "abort"};
  for (const int seed : seeds(10)) {
    if (HasFatalFailure()) break;
    const std::string& fault = faults[static_cast<std::size_t>(seed) % faults.size()];
    const int ranks = 2 + seed / 3 % 3;
    SCOPED_TRACE(fmt::format("collective-faults/faulty --ranks {} --seed {} --set fault={}", ranks,
                             seed, fault));
    run(seed, fault, ranks);
  }
  EXPECT_EQ(shared_memory(), before);
}

}  // namespace
}  // namespace lockstep
