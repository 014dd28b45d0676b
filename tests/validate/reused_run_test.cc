#include "harness/validate/reused_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/record/run_folder.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// An earlier run of a state, whose files lay elsewhere then.
class ReusedRunTest : public testing::Test {
 protected:
  ReusedRunTest() {
    state_.commit = "0123456789abcdef";
    state_.top = folder_.path() / "state";
    state_.sources = {state_.top.string()};
    write(state_.top / "a.py", "one\n");
    beside_.is_known = true;
    beside_.versions = {{"torch", "2.11.0"}, {"extra", "1"}};
    beside_.devices = {"CPU, AVX2"};
    JobRecord job;
    job.id = "00000000000000aa";
    job.title = "train.py of main (012345678)";
    job.folder = "job";
    run_.command = command_;
    run_.jobs = {job};
    run_.planned = counts_of(run_);
    save(kFacts);
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    write_text(path, text);
  }

  void save(const std::string& facts) const {
    write(folder() / "job/rank-0.execution.json", facts);
    save_record(folder(), run_);
  }

  fs::path folder() const { return folder_.path() / "run"; }

  std::string why_not() const {
    const ReusedRun found = reused_run(folder(), {command_, state_, seed_, beside_});
    EXPECT_EQ(found.run.has_value(), found.why_not.empty());
    return found.why_not;
  }

  // SHA-256 of "one\n".
  static constexpr const char* kFacts =
      R"({"roots": ["/then"], "device": "CPU, AVX2", "seed": null,
          "files": {"/then/a.py": "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"},
          "versions": {"torch": "2.11.0", "numpy": "2"}})";

  TemporaryFolder folder_;
  std::vector<std::string> command_{"python3", "train.py"};
  CodeState state_;
  std::optional<std::int64_t> seed_;
  JobExecution beside_;
  RunRecord run_;
};

TEST_F(ReusedRunTest, IsThatOfTheSameCommandFilesVersionsAndDevices) { EXPECT_EQ(why_not(), ""); }

TEST_F(ReusedRunTest, IsNoneIfAnythingElseIsKnown) {
  const auto with = [&](const std::function<void()>& change) {
    const auto [command, state, seed, beside] = std::tuple(command_, state_, seed_, beside_);
    change();
    const std::string why = why_not();
    std::tie(command_, state_, seed_, beside_) = std::tie(command, state, seed, beside);
    return why;
  };
  EXPECT_EQ(with([&] { command_.emplace_back("--lr"); }), "it is of another command");
  EXPECT_EQ(with([&] { state_.commit = "f00"; }), "it is of another commit");
  EXPECT_EQ(with([&] { seed_ = 3; }), "it has another seed");
  EXPECT_EQ(with([&] { beside_.versions["torch"] = "2.12.0"; }),
            "torch is 2.12.0 now, and was 2.11.0");
  EXPECT_EQ(with([&] { beside_.devices = {"NVIDIA H100"}; }), "it ran on other devices");
  EXPECT_EQ(with([&] { beside_ = {}; }), "nobody said which files it executed");
  write_text(state_.top / "a.py", "two\n");
  EXPECT_EQ(why_not(), "/then/a.py has changed");
  fs::remove(state_.top / "a.py");
  EXPECT_EQ(why_not(), "/then/a.py has changed");
}

TEST_F(ReusedRunTest, IsNoneOfAFolderThatHasNone) {
  fs::remove(folder() / "record.json");
  EXPECT_THAT(why_not(), HasSubstr("has no run"));
  write_text(folder() / "record.json", "torn");
  EXPECT_NE(why_not(), "");
}

TEST_F(ReusedRunTest, IsNoneThatDidNotTrainToItsEnd) {
  run_.jobs[0].processes = run_.jobs[0].world_size = 1;
  run_.jobs[0].exits = {{.rank = 0, .kind = ExitKind::signalled}};
  save(kFacts);
  EXPECT_EQ(why_not(), "it did not train to its end");
}

}  // namespace
}  // namespace lockstep
