// Ranks started by torchrun and both MPIs get the same verdicts as our own ranks, and leave nothing
// behind however they end.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "harness/launch/launcher.h"
#include "tests/command.h"
#include "tests/foreign_launchers.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

const std::string kTorchrun = LOCKSTEP_TORCHRUN;

struct Case {
  std::string name;
  std::string command;   ///< with {ranks}
  std::string launcher;  ///< name in records

  std::string program() const { return command.substr(0, command.find(' ')); }
  std::string with(int ranks) const {
    std::string words = command;
    words.replace(words.find("{ranks}"), 7, std::to_string(ranks));
    return words;
  }
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

const std::vector<Case> kCases{
    {"torchrun", kTorchrun + " --standalone --no-python --nproc-per-node {ranks}", "torchrun"},
    {"openmpi", "mpirun.openmpi -n {ranks}", "Open MPI's mpirun"},
    {"mpich", "mpirun.mpich -n {ranks}", "MPICH's mpirun"}};

/// A free port, for launchers that need one.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(fd, generic, size), 0);
  ::getsockname(fd, generic, &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

class StartedBy : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    allow_foreign_launchers();
    if (find_program(GetParam().program()).empty()) {
      GTEST_SKIP() << "there is no " << GetParam().program();
    }
  }

  Outcome run(const std::string& line) const {
    return run_shell("cd " + folder_.path().string() + " && " + line);
  }
  Outcome direct(const std::string& program, int ranks, const std::string& arguments) const {
    return run(GetParam().with(ranks) + " " + program + " run " + arguments);
  }
  Outcome indirect(const std::string& program, const std::string& arguments) const {
    return run(
        fmt::format("{} run {} --launcher '{}' --out run", program, arguments, GetParam().command));
  }
  fs::path folder() const { return folder_.path(); }
  nlohmann::json record() const {
    return nlohmann::json::parse(text_of(folder() / "run" / "record.json"));
  }

  /// Processes of the testbed whose command line names this test's folder.
  std::vector<std::string> left_over() const {
    std::vector<std::string> lines;
    for (const std::string& line : lines_of(run_shell("ps -eo pid,stat,args").out)) {
      const bool is_ours = line.find(folder().string()) != line.npos;
      if (is_ours && line.find(kTestbed) != line.npos && line.find(" ps ") == line.npos) {
        lines.push_back(line);
      }
    }
    return lines;
  }
  void expect_nothing_left() const {
    for (int i = 0; i < 200 && !left_over().empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_THAT(left_over(), testing::IsEmpty());
  }

 private:
  const TemporaryFolder folder_;
};

TEST_P(StartedBy, FromARunTheVerdictsAreThoseOfOurOwnRanks) {
  const std::string variants =
      "loss-on-unwrapped-module/bypass loss-on-unwrapped-module/"
      "through-wrapper";
  const Outcome own = run(kLockstep + " run " + variants + " --ranks 2 --out own");
  const Outcome theirs = indirect(kLockstep, variants + " --ranks 2");
  ASSERT_EQ(own.status, 0) << own.err;
  EXPECT_EQ(theirs.status, 0) << theirs.out << theirs.err;
  const auto own_record = nlohmann::json::parse(text_of(folder() / "own" / "record.json"));
  for (std::size_t i = 0; i < own_record.at("cells").size(); ++i) {
    const auto& expected = own_record.at("cells").at(i);
    const auto found = record().at("cells").at(i);
    EXPECT_EQ(found.at("results"), expected.at("results"));
    EXPECT_EQ(found.at("verdict"), expected.at("verdict"));
    EXPECT_EQ(found.at("source"), expected.at("source"));
  }
  const auto cell = record().at("cells").at(0);
  EXPECT_THAT(cell.at("launcher").get<std::string>(), HasSubstr(GetParam().with(2)));
  EXPECT_THAT(cell.at("reproduce").get<std::string>(),
              HasSubstr("--launcher '" + GetParam().command + "'"));
}

TEST_P(StartedBy, ACellThatIsRunAgainIsJudgedAgain) {
  const Outcome outcome =
      indirect(kLockstep, "loss-on-unwrapped-module/through-wrapper --repeat 2");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

TEST_P(StartedBy, DirectlyItJudgesAndLeavesARecordForTheReport) {
  const Outcome started = direct(kLockstep, 2, "loss-on-unwrapped-module/bypass --out run");
  EXPECT_EQ(started.status, 0) << started.out << started.err;
  EXPECT_THAT(unwrapped(started.out),
              HasSubstr("each rank has its own gradient, never synchronised"));
  EXPECT_THAT(started.out, HasSubstr("Files: run\n"));
  const Outcome report = run(kLockstep + " report -vv run");
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("it is the rank's own gradient: never synchronised"));
  EXPECT_EQ(record().at("cells").at(0).at("launcher"), GetParam().launcher);
  EXPECT_FALSE(fs::exists(folder() / "run/loss-on-unwrapped-module/bypass/w2/world.json"));
}

TEST_P(StartedBy, RankThatIsKilledOrStoppedIsNamed) {
  const Outcome outcome = indirect(kTestbed, "endings/is-killed endings/stops --ranks 3");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("rank 1 was killed by signal 9 (SIGKILL) in step 2"));
  EXPECT_THAT(outcome.out, HasSubstr("rank 1 did not finish (stopped by SIGSTOP) in step 2"));
  expect_nothing_left();
}

TEST_P(StartedBy, DirectlyARankThatIsKilledIsNamedAndTheLauncherSatisfied) {
  const Outcome started = direct(kTestbed, 3, "endings/is-killed --out run");
  EXPECT_EQ(started.status, 0) << started.out << started.err;
  EXPECT_THAT(run(kTestbed + " report run").out,
              HasSubstr("rank 1 was killed by signal 9 (SIGKILL) in step 2"));
  expect_nothing_left();
}

TEST_P(StartedBy, DirectlyItExitsByTheVerdictWhateverBecameOfItsRanks) {
  const Outcome undecided = direct(kTestbed, 2, "observes-nothing/blind --out run");
  EXPECT_NE(undecided.status, 0) << undecided.out << undecided.err;
  EXPECT_EQ(run(kTestbed + " report run").status, 2);
  const Outcome missed = direct(kTestbed, 2, "swapped-roles/clean --out missed");
  EXPECT_NE(missed.status, 0) << missed.out << missed.err;
  EXPECT_EQ(run(kTestbed + " report missed").status, 1);
  EXPECT_TRUE(fs::exists(folder() / "missed/record.json"));
  expect_nothing_left();
}

/// Runs `line` in the background, waits for a file of rank 1, ends the first process with `signal`.
std::string ended_by(const std::string& signal, const std::string& line, const fs::path& file) {
  return fmt::format(
      "exec 2>/dev/null; {} >log 2>&1 & pid=$!; for i in $(seq 600); do [ -e {} ] && break; "
      "sleep 0.05; done; [ -e {} ] || exit 99; kill -{} $pid; wait $pid",
      line, file.string(), file.string(), signal);
}

TEST_P(StartedBy, LauncherThatIsKilledLeavesNothing) {
  const fs::path out = folder() / "run";
  const Outcome outcome = run(ended_by(
      "KILL", GetParam().with(2) + " " + kTestbed + " run endings/stops --out " + out.string(),
      out / "endings/stops/w2/rank-1.step-1.safetensors"));
  EXPECT_NE(outcome.status, 99) << text_if_there(folder() / "log");
  expect_nothing_left();
}

TEST_P(StartedBy, RunThatIsEndedLeavesNothing) {
  for (const char* signal : {"KILL", "TERM"}) {
    const fs::path out = folder() / signal;
    const Outcome outcome =
        run(ended_by(signal,
                     fmt::format("{} run endings/stops --launcher '{}' --out {}", kTestbed,
                                 GetParam().command, out.string()),
                     out / "endings/stops/w2/rank-1.step-1.safetensors"));
    EXPECT_NE(outcome.status, 99) << text_if_there(folder() / "log");
    expect_nothing_left();
  }
}

INSTANTIATE_TEST_SUITE_P(Launcher, StartedBy, testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

// Two machines without a shared folder
// --------------------------------------------------------------

/// Two torchruns that simulate two machines: separate folders that the other does not see.
class TwoNodes : public testing::Test {
 protected:
  void SetUp() override {
    allow_foreign_launchers();
    if (find_program(kTorchrun).empty()) GTEST_SKIP() << "there is no " << kTorchrun;
  }

  Outcome run(int ranks_each, const std::string& arguments) const {
    const int port = free_port();
    return run_shell(fmt::format("{} & {}; status=$?; wait $!; echo node 1: $?; exit $status",
                                 node(1, ranks_each, port, arguments),
                                 node(0, ranks_each, port, arguments)));
  }
  Outcome report() const { return run_shell(kTestbed + " report " + (path() / "0/run").string()); }
  fs::path path() const { return folder_.path(); }

  /// Details of the rank exits.
  std::vector<std::string> exits() const {
    std::vector<std::string> details;
    const auto record = nlohmann::json::parse(text_of(path() / "0/run/record.json"));
    for (const auto& end : record.at("cells").at(0).at("exits")) {
      details.push_back(end.at("detail"));
    }
    return details;
  }

 private:
  std::string node(int rank, int ranks, int port, const std::string& arguments) const {
    return fmt::format(
        "(mkdir -p {0}/{1} && cd {0}/{1} && exec {2} --no-python --nnodes 2 --node-rank {1} "
        "--nproc-per-node {3} --master-addr 127.0.0.1 --master-port {4} {5} run {6} --out run)",
        path().string(), rank, kTorchrun, ranks, port, kTestbed, arguments);
  }

  const TemporaryFolder folder_;
};

TEST_F(TwoNodes, BringTheirFilesTogetherThroughTheStore) {
  const Outcome outcome = run(2, "endings/is-killed");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("node 1: 0\n"));
  EXPECT_FALSE(fs::exists(path() / "1/run/record.json"));
  EXPECT_FALSE(fs::exists(path() / "1/run/endings/is-killed/w4/rank-0.csv"));
  const Outcome shown = report();
  EXPECT_EQ(shown.status, 0) << shown.out << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("rank 1 was killed by signal 9 (SIGKILL) in step 2"));
}

TEST_F(TwoNodes, ExitByTheVerdictOfRankZero) {
  const Outcome outcome = run(1, "swapped-roles/clean");
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("node 1: 1\n"));
  EXPECT_EQ(report().status, 1);
  EXPECT_FALSE(fs::exists(path() / "1/run/record.json"));
}

// Neither sees the other's collective log. Without the store they would wait for five minutes.
TEST_F(TwoNodes, TellCallsThatDoNotMatchOnceARankIsOverdue) {
  const Outcome outcome = run(1, "collective-mismatch/operation --collectives check --timeout 300");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(unwrapped(report().out),
              AllOf(HasSubstr("disagree on the operation of collective 2 of"),
                    HasSubstr("in step 2: rank 0 calls")));
  EXPECT_THAT(exits(), Contains(HasSubstr("ended because ranks call collectives that do not match: "
                                          "collective 2 of the group world: rank ")));
}

TEST_F(TwoNodes, AreLeftToTheirLimitWhereNobodyCallsAnythingElse) {
  const Outcome outcome = run(1, "collective-mismatch/missing --collectives check --timeout 8");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(unwrapped(report().out), HasSubstr("rank 1 never entered collective 2"));
  EXPECT_THAT(exits(), Contains("limit of 8 s"));
  EXPECT_THAT(exits(), testing::Not(Contains(HasSubstr("ended because"))));
}

// Requests other than one rank of one cell, and invalid launchers ---------------------------------

struct Wrong {
  const char* arguments;
  const char* said;

  friend std::ostream& operator<<(std::ostream& out, const Wrong& w) { return out << w.arguments; }
};

class WrongDirectStart : public testing::TestWithParam<Wrong> {};

TEST_P(WrongDirectStart, OfAnythingElseThanOneRankOfOneCellIsRefused) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_shell("cd " + folder.path().string() + " && mkdir full && touch full/x && RANK=0 " +
                "WORLD_SIZE=2 " + kTestbed + " run " + GetParam().arguments);
  EXPECT_EQ(outcome.status, 64) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
  EXPECT_FALSE(fs::exists(folder.path() / "x"));
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongDirectStart,
    testing::Values(Wrong{"endings/finishes", "--out DIR"},
                    Wrong{"endings --out x", "SCENARIO/VARIANT"},
                    Wrong{"--out x", "SCENARIO/VARIANT"},
                    Wrong{"endings/finishes endings/exits --out x", "SCENARIO/VARIANT"},
                    Wrong{"endings/finishes --matrix --out x", "--matrix"},
                    Wrong{"endings/finishes --repeat 2 --out x", "--repeat"},
                    Wrong{"endings/finishes --ranks 2,3 --out x", "--ranks"},
                    Wrong{"endings/finishes --ranks 3 --out x", "give 2, as torchrun started"},
                    Wrong{"endings/finishes --format json --out x", "--format"},
                    Wrong{"endings/finishes --out full", "not empty"},
                    Wrong{"endings/finishe --out x", "'finishes'"}));

TEST(DirectStart, IsNotMeantWithLauncherNone) {
  const TemporaryFolder folder;
  const Outcome outcome = run_shell("cd " + folder.path().string() + " && RANK=0 WORLD_SIZE=9 " +
                                    kTestbed + " run endings/finishes --launcher none");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST(DirectStart, ThatDoesNotApplyIsRecordedByRankZero) {
  const TemporaryFolder folder;
  const std::string run =
      "cd " + folder.path().string() + " && WORLD_SIZE=1 RANK=0 " + kTestbed + " run ";
  EXPECT_EQ(run_shell(run + "endings/finishes --out run").status, 3);
  const Outcome report = run_shell(kTestbed + " report " + (folder.path() / "run").string());
  EXPECT_EQ(report.status, 3);
  EXPECT_THAT(unwrapped(report.out), HasSubstr("supports world sizes 2 to 4, not 1"));
}

TEST(DirectStart, ThatDoesNotApplyIsAFailureWhereSomethingIsRequired) {
  for (const int rank : {0, 1}) {
    const TemporaryFolder folder;
    const Outcome outcome = run_shell(fmt::format(
        "cd {} && WORLD_SIZE=64 RANK={} {} run endings/finishes --out run --require gloo",
        folder.path().string(), rank, kTestbed));
    EXPECT_EQ(outcome.status, 1) << rank << outcome.err;
  }
}

class LauncherThatIsNone : public testing::TestWithParam<Wrong> {};

TEST_P(LauncherThatIsNone, IsToldInASentence) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run_shell("cd " + folder.path().string() + " && " + kTestbed +
                " run endings/finishes --out run --launcher " + GetParam().arguments);
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Cli, LauncherThatIsNone,
    testing::Values(
        Wrong{"'no-such -n {ranks}'", "no program 'no-such'"}, Wrong{"'mpirun -n 2'", "{ranks}"},
        Wrong{"''", "empty"},
        Wrong{"\"sh -c 'echo no nodes left; echo ----; echo Ask for less.; exit 1 {ranks}'\"",
              "exited with status 1, and no rank reported anything. Its last output:\n"
              "  no nodes left\n  Ask for less.\n"},
        Wrong{"'true {ranks}'", "It printed nothing"},
        Wrong{"'env X={ranks}'", "gave this process no rank"},
        Wrong{"'env X={ranks} RANK=0 WORLD_SIZE=1'", "worlds of 1 rank instead of one world of 2"},
        Wrong{"'env X={ranks} RANK=0 WORLD_SIZE=zwei'", "WORLD_SIZE cannot be 'zwei'"}));

}  // namespace
}  // namespace lockstep
