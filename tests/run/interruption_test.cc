// Runs ended by SIGINT or SIGTERM: completed work is judged and written, and no process or file is
// left over.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/foreign_launchers.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

/// Three cells of the testbed in the test's own folder: one that ends soon, one that would take
/// hours, and one that never starts.
class InterruptedRun : public testing::Test {
 protected:
  ~InterruptedRun() override {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  void start(const std::string& options = "--jobs 1") {
    const std::string line = fmt::format(
        "exec {} run empty/met endings/finishes observes-nothing --steps 1000000 --timeout 7200 "
        "--format junit,markdown --out {} {} >{}/out 2>{}/err",
        kTestbed, run().string(), options, folder_.path().string(), folder_.path().string());
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::signal(SIGINT, SIG_DFL);
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(101);
  }

  /// After the long cell has begun.
  Outcome end_by(int signal) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    const fs::path first_file = run() / "endings/finishes/w2/rank-1.step-1.safetensors";
    while (!fs::exists(first_file) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(fs::exists(first_file));
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), said("out"), said("err")};
  }

  fs::path run() const { return folder_.path() / "run"; }

  /// Processes whose command line names the run.
  std::vector<std::string> processes() const {
    std::vector<std::string> lines;
    for (const std::string& line : lines_of(run_shell("ps -eo stat,args").out)) {
      const bool is_ours = line.find(run().string()) != line.npos;
      if (is_ours && line.find(kTestbed) != line.npos) lines.push_back(line);
    }
    return lines;
  }

  /// Leftovers of a launcher in the temporary folder.
  std::vector<std::string> session_folders() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.is_directory() && entry.path() != run()) names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string said(const char* file) const { return text_of(folder_.path() / file); }

  const TemporaryFolder folder_;
  pid_t pid_ = 0;
};

TEST_F(InterruptedRun, SaysInOneSentenceHowFarItCame) {
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    fs::remove_all(run());
    start();
    const Outcome outcome = end_by(signal);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::EndsWith(fmt::format("\nInterrupted: 1 of 3 cells done, 1 as "
                                                           "expected. Report: lockstep report {}\n",
                                                           run().string())));
    EXPECT_THAT(processes(), IsEmpty());
  }
}

TEST_F(InterruptedRun, LeavesWholeReportsOfWhatWasDone) {
  start();
  end_by(SIGINT);
  EXPECT_THAT(text_of(run() / "report.md"), HasSubstr("empty"));
  EXPECT_THAT(text_of(run() / "report.xml"), HasSubstr("</testsuites>"));
  const auto record = nlohmann::json::parse(text_of(run() / "record.json"));
  EXPECT_EQ(record.at("cells").at(0).at("verdict"), "as expected");
  EXPECT_EQ(record.at("cells").at(1).at("processes"), 0);
}

TEST_F(InterruptedRun, HasNoReportFileBeforeItHasAReport) {
  start();
  end_by(SIGKILL);
  EXPECT_FALSE(fs::exists(run() / "report.md"));
  EXPECT_FALSE(fs::exists(run() / "report.xml"));
}

TEST_F(InterruptedRun, SaysOnceInItsReportHowManyCellsWereNotRun) {
  start();
  end_by(SIGINT);
  const Outcome report = run_shell(kTestbed + " report " + run().string());
  EXPECT_EQ(report.status, 2) << report.err;
  EXPECT_THAT(report.out, HasSubstr("note: interrupted by SIGINT: 1 of 3 cells were run"));
  EXPECT_THAT(report.out, HasSubstr("3 cells, 1 as expected, 2 NOT RUN."));
}

/// All three cells at a time: two of them would take hours.
class InterruptedCells : public InterruptedRun {
 protected:
  void start() {
    InterruptedRun::start("--jobs 3");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!has_run_first_cell() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(has_run_first_cell());
  }

 private:
  bool has_run_first_cell() const {
    const auto record = nlohmann::json::parse(text_if_there(run() / "record.json"), nullptr,
                                              /*allow_exceptions=*/false);
    return record.is_object() && record.at("cells").at(0).at("processes") == 2;
  }
};

TEST_F(InterruptedCells, AreAllEndedAndWhatWasDoneIsKept) {
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    fs::remove_all(run());
    start();
    const Outcome outcome = end_by(signal);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err,
                testing::HasSubstr("\nInterrupted: 1 of 3 cells done, 1 as expected."));
    EXPECT_THAT(processes(), IsEmpty());
    const auto record = nlohmann::json::parse(text_of(run() / "record.json"));
    EXPECT_EQ(record.at("cells").at(0).at("verdict"), "as expected");
    EXPECT_EQ(record.at("cells").at(1).at("processes"), 0);
    EXPECT_EQ(record.at("cells").at(2).at("processes"), 0);
  }
}

TEST_F(InterruptedCells, LeaveNoProcessWhereTheRunWasKilled) {
  start();
  end_by(SIGKILL);
  for (int i = 0; i < 200 && !processes().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(InterruptedRun, LetsItsLauncherCleanUp) {
  allow_foreign_launchers();
  if (run_shell("command -v mpirun.openmpi").status != 0) GTEST_SKIP() << "there is no Open MPI";
  for (const auto& [signal, status] : {std::pair(SIGTERM, 143), std::pair(SIGINT, 130)}) {
    fs::remove_all(run());
    start("--launcher 'mpirun.openmpi -n {ranks}'");
    const Outcome outcome = end_by(signal);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr("\nInterrupted: 1 of 3 cells done"));
    EXPECT_THAT(session_folders(), IsEmpty());
    EXPECT_THAT(processes(), IsEmpty());
  }
}

}  // namespace
}  // namespace lockstep
