// `lockstep validate` on small repositories: both states of their code, run and compared.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/command.h"
#include "tests/temporary_folder.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// One of the repositories of examples/validate, with the environment of the tests.
class Validate : public testing::Test {
 protected:
  void make(const std::string& name) {
    top_ = folder_.path() / name;
    const Outcome made =
        run_shell(fmt::format("{} {}/examples/validate/make_repositories.py {} {}", LOCKSTEP_PYTHON,
                              LOCKSTEP_SOURCE_DIR, folder_.path().string(), name));
    ASSERT_EQ(made.status, 0) << made.err;
  }

  /// In the repository, with nothing in the folder for temporary files but what Lockstep leaves.
  Outcome in_repository(const std::string& line) const {
    const std::string bin = fs::path(LOCKSTEP_PYTHON).parent_path().string();
    fs::create_directories(temporary());
    return run_shell(fmt::format("cd {} && export PATH={}:$PATH TMPDIR={} && {}", top_.string(),
                                 bin, temporary().string(), line));
  }

  Outcome validate(const std::string& options, const std::string& job = kJob) {
    fs::remove_all(out());
    return in_repository(fmt::format("{} validate --out {} {} --reference 'python3 train.py' -- {}",
                                     kLockstep, out().string(), options, job));
  }

  std::string seen() const {
    return in_repository("git status --short --ignored && git worktree list && git branch -a").out;
  }

  void expect_nothing_left(const std::string& before) const {
    EXPECT_EQ(seen(), before);
    EXPECT_EQ(run_shell("find " + temporary().string() + " -name 'lockstep*'").out, "");
  }

  nlohmann::json summary() const { return nlohmann::json::parse(text_of(out() / "summary.json")); }
  fs::path top() const { return top_; }
  fs::path out() const { return folder_.path() / "run"; }
  fs::path temporary() const { return folder_.path() / "tmp"; }

  static constexpr const char* kJob =
      "python3 -m torch.distributed.run --standalone --nproc-per-node 2 train.py";

 private:
  TemporaryFolder folder_;
  fs::path top_;
};

/// The fault raises a real error of DDP, and the checkout is dirty.
TEST_F(Validate, ProvesAFixInOneCommand) {
  make("checkpoint");
  write_text(top() / "train.py", "raise SystemExit('not committed')");
  const std::string before = seen();
  const Outcome outcome = validate("main..fix --format summary,markdown");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nFIXED: equal up to rounding in 4 steps, 1 to 4\n"));
  EXPECT_THAT(outcome.out, HasSubstr("of 1 changed file, ranks executed 1: library/training.py"));
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: 4 jobs to run: 1 cell in 2 states"));
  EXPECT_EQ(summary()["comparisons"][0]["outcome"], "FIXED");
  const std::string comment = text_of(out() / "report.md");
  EXPECT_THAT(comment, HasSubstr("with name block.down.bias has been marked as ready twice"));
  EXPECT_LE(std::ranges::count(comment, '\n'), 40);
  expect_nothing_left(before);
  EXPECT_EQ(in_repository(fmt::format("{} report {}", kLockstep, out().string())).status, 0);
}

/// What an editable install does, without one.
TEST_F(Validate, RefusesStatesThatImportTheSameFiles) {
  make("src-layout");
  const std::string path = fmt::format("PYTHONPATH={}/src ", top().string());
  const Outcome outcome = in_repository(
      path + fmt::format("{} validate main..fix --out {} --reference 'python3 train.py' -- "
                         "python3 train.py",
                         kLockstep, out().string()));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out,
              HasSubstr("REFUSED: both sides imported src/library/training.py of one"));
  EXPECT_THAT(outcome.out, HasSubstr("--build 'pip install -e .'"));
}

TEST_F(Validate, ComparesTheWorkingFolderAndSeedsIt) {
  make("inner-module");
  // Stands for NumPy, which the environment of the tests has not. torch does not see it.
  fs::create_directories(top() / "stand-in/numpy");
  write_text(top() / "stand-in/numpy/__init__.py", "");
  write_text(top() / "stand-in/numpy/random.py",
             "def seed(given):\n    global seeded\n    seeded = given\n");
  write_text(top() / "train.py",
             "import random, sys, torch\n"
             "sys.path.append('stand-in')\n"
             "import numpy.random\n"
             "assert numpy.random.seeded == 3\n"
             "del sys.path[-1], sys.modules['numpy'], sys.modules['numpy.random']\n"
             "m = torch.nn.Linear(4, 1)\n"
             "o = torch.optim.SGD(m.parameters(), 0.1)\n"
             "for i in range(3):\n"
             "    x = torch.randn(8, 4) + random.random()\n"
             "    m(x).mean().backward(), o.step(), o.zero_grad()\n");
  const Outcome seeded = validate("--seed 3", "python3 train.py");
  EXPECT_EQ(seeded.status, 0) << seeded.err;
  EXPECT_THAT(seeded.out, HasSubstr("equal, bit for bit"));
  EXPECT_THAT(seeded.out, HasSubstr("seeded"));
  EXPECT_FALSE(fs::exists(top() / "library/__pycache__"));
}

/// Two folders without a reference: nobody can say which one is right, but where they part.
TEST_F(Validate, NamesTheFirstModuleOfTwoStatesThatTrainOtherwise) {
  make("inner-module");
  for (const char* name : {"old", "new"}) {
    fs::create_directories(top() / name);
    write_text(top() / name / "head.py",
               fmt::format("FACTOR = {}\n", std::string_view(name) == "old" ? 1 : 2));
    write_text(top() / name / "train.py",
               "import torch\nfrom torch import nn\nimport head\n"
               "class Head(nn.Linear):\n"
               "    def forward(self, x):\n"
               "        return super().forward(x) * head.FACTOR\n"
               "torch.manual_seed(0)\n"
               "m = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Head(4, 1))\n"
               "o = torch.optim.SGD(m.parameters(), 0.1)\n"
               "for i in range(3):\n"
               "    m(torch.ones(2, 4)).square().mean().backward(), o.step(), o.zero_grad()\n");
  }
  const Outcome outcome = in_repository(fmt::format(
      "{} validate --before old --after new --out {} --format summary -- python3 train.py",
      kLockstep, out().string()));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("2 jobs to run: 1 cell in 2 states\n"));
  EXPECT_THAT(outcome.err, HasSubstr("before and after run again, with the modules of step 1"));
  EXPECT_EQ(summary()["comparisons"][0]["outcome"], "NOT DECIDED");
  const std::string sentence = summary()["comparisons"][0]["sentence"];
  EXPECT_THAT(sentence, HasSubstr("the states train otherwise: DIFFERENT: "));
  EXPECT_THAT(sentence, HasSubstr("First module that differs: 2, after 1, which agrees"));
  EXPECT_THAT(sentence, HasSubstr("a reference tells: --reference"));
  EXPECT_THAT(outcome.out, HasSubstr(" MiB a rank"));
}

TEST_F(Validate, LeavesNothingWhenItIsInterrupted) {
  make("inner-module");
  const std::string before = seen();
  const Outcome outcome = in_repository(fmt::format(
      "({} validate main..fix --out {} --reference 'sleep 60' -- sleep 60 & "
      "while ! ls $TMPDIR/*/*/state-2/train.py >/dev/null 2>&1; do sleep 0.1; done; sleep 0.5; "
      "kill -TERM $!; wait $!)",
      kLockstep, out().string()));
  EXPECT_EQ(outcome.status, 143) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the validation was interrupted"));
  expect_nothing_left(before);
}

TEST_F(Validate, RefusesBadArgumentsBeforeItRunsAnything) {
  make("inner-module");
  const std::string before = seen();
  const auto refused = [&](const std::string& options, const std::string& why) {
    const Outcome outcome = validate(options, "true");
    EXPECT_EQ(outcome.status, 64) << options;
    EXPECT_THAT(outcome.err, HasSubstr(why)) << options;
  };
  refused("main", "two commits, as main..fix");
  refused("main..", "two commits, as main..fix");
  refused("main..fix --after fix", "absent with --before");
  refused("main..no-such", "a commit of this repository");
  refused("main..main", "a file differs");
  refused("main..fix --set ranks=2", "{ranks}");
  refused("main..fix --set ranks", "NAME=A,B");
  refused("main..fix --with /etc", "of this checkout");
  refused("main..fix --build 'exit 7'", "(status 7)");
  refused("main..fix --seed x", "--seed");
  expect_nothing_left(before);
  const Outcome nothing =
      in_repository(fmt::format("{} validate main..fix --reference 'python3 a.py'", kLockstep));
  EXPECT_EQ(nothing.status, 64);
  EXPECT_THAT(nothing.err, HasSubstr("the command that trains"));
}

/// Of `git bisect run`, which stands on the commit that it judges.
TEST_F(Validate, TakesAFileAndJudgesForABisection) {
  make("inner-module");
  write_text(top() / "train.py", "raise ValueError('no')");
  write_text(
      top() / "fix.toml",
      "[validate]\nreference = \"python3 train.py\"\ncommand = [\"python3\", \"train.py\"]\n");
  const std::string start = fmt::format("{} validate --bisect --config fix.toml", kLockstep);
  const Outcome outcome = in_repository(start + " --out a");
  EXPECT_EQ(outcome.status, 125) << "the reference itself fails";
  write_text(top() / "fix.toml", "[validate]\nreferense = \"python3 train.py\"\n");
  const Outcome misspelt = in_repository(start + " --out b");
  EXPECT_EQ(misspelt.status, 255);
  EXPECT_THAT(misspelt.err, HasSubstr("'reference'"));
}

struct Repair {
  const char* repository;
  const char* branch;
  int status;
  const char* answer;
  bool has_modules = false;  ///< a side differs in its values, so it runs again with modules
};

class EachRepair : public Validate, public testing::WithParamInterface<Repair> {};

TEST_P(EachRepair, HasItsOutcome) {
  const Repair& repair = GetParam();
  make(repair.repository);
  const std::string before = seen();
  const Outcome outcome = validate(fmt::format("main..{}", repair.branch));
  EXPECT_EQ(outcome.status, repair.status) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(fmt::format("\n{}", repair.answer)));
  const bool has_modules = outcome.out.find("\nmodules: the norms of ") != std::string::npos;
  EXPECT_EQ(has_modules, repair.has_modules) << outcome.out;
  expect_nothing_left(before);
}

constexpr Repair kRepairs[] = {
    {"inner-module", "fix", 0, "FIXED: equal", true},
    {"inner-module", "wrong-fix", 1, "STILL THERE: all 8 gradients differ in step 1", true},
    {"inner-module", "nothing", 1, "NOT SHOWN: the changed files were never imported"},
    {"checkpoint", "wrong-fix", 1, "STILL THERE: B raised an error at train.py"},
    {"checkpoint", "nothing", 1, "NOT SHOWN: the changed files were never imported"},
    {"tiles", "fix", 0, "FIXED: equal"},
    {"tiles", "wrong-fix", 1, "STILL THERE: 4 of 8 gradients differ in step 1", true},
    {"tiles", "nothing", 1, "NOT SHOWN: the changed files were never imported"},
    {"device-map", "fix", 0, "FIXED: equal"},
    {"device-map", "wrong-fix", 1, "STILL THERE: 4 of 8 updates differ in step 1", true},
    {"device-map", "nothing", 1, "NOT SHOWN: the changed files were never imported"},
    {"tiled-fsdp", "fix", 0, "FIXED: equal"},
    {"tiled-fsdp", "wrong-fix", 1, "STILL THERE: all 10 gradients differ in step 2", true},
    {"tiled-fsdp", "nothing", 1, "NOT SHOWN: the changed files were never imported"}};

INSTANTIATE_TEST_SUITE_P(Soak, EachRepair, testing::ValuesIn(kRepairs));

class ValidateInSoak : public Validate, public testing::WithParamInterface<int> {};

TEST_P(ValidateInSoak, JudgesAMatrixAsAWhole) {
  make("inner-module");
  const Outcome outcome =
      validate("main..fix --set ranks=2,4 --format summary,markdown",
               "python3 -m torch.distributed.run --standalone --nproc-per-node {ranks} train.py");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("6 jobs to run: 2 cells in 2 states"));
  EXPECT_THAT(outcome.out, HasSubstr("FIXED in 2 of 2 cells"));
  EXPECT_THAT(text_of(out() / "report.md"), HasSubstr("| ranks=4 | "));
}

/// On top of this environment, in which the package is not installed.
TEST_P(ValidateInSoak, BuildsEachStateInAnEnvironmentOfItsOwn) {
  make("src-layout");
  const std::string build =
      "python3 -c \"import os, sysconfig; open(sysconfig.get_path(\\\"purelib\\\") + "
      "\\\"/own.pth\\\", \\\"w\\\").write(os.getcwd() + \\\"/src\\\")\"";
  const Outcome outcome =
      validate("main..fix --build '" + build + "'",
               "python3 -m torch.distributed.run --standalone --nproc-per-node 2 train.py");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nFIXED: equal"));
}

/// The second time with the references of the first, as long as nothing of them changed.
TEST_P(ValidateInSoak, TakesTheReferencesOfAnEarlierRun) {
  make("inner-module");
  ASSERT_EQ(validate("main..fix").status, 0);
  const std::string earlier = out().string() + "-earlier";
  fs::rename(out(), earlier);
  const Outcome again = validate("main..fix --reuse " + earlier);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the run in " + earlier + "/reference)"));
  EXPECT_THAT(again.err, HasSubstr("the run in " + earlier + "/reference-before)"));
  EXPECT_THAT(again.out, HasSubstr("\nFIXED: equal"));
  EXPECT_THAT(again.out, HasSubstr("reference is the run in " + earlier));
  const Outcome other = validate("main..wrong-fix --reuse " + earlier);
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("reference runs again: it is of another commit"));
  EXPECT_THAT(other.err, HasSubstr("the run in " + earlier + "/reference-before)"));
  const Outcome none = validate("main..fix --reuse " + top().string());
  EXPECT_EQ(none.status, 64);
  EXPECT_THAT(none.err, HasSubstr("the folder of a run of 'lockstep validate'"));
}

/// On one rank, which never comes to the line that the commit changes.
TEST_P(ValidateInSoak, TellsThatNoChangedLineWasExecuted) {
  make("inner-module");
  const Outcome commit = in_repository(
      "git checkout --quiet -b never main && sed -i 's/DistributedDataParallel(model)/"
      "DistributedDataParallel(model, static_graph=True)/' library/training.py && "
      "git -c user.name=a -c user.email=a@b commit --quiet --all --message never");
  ASSERT_EQ(commit.status, 0) << commit.err;
  const Outcome plain = validate("main..never", "python3 train.py");
  EXPECT_EQ(plain.status, 1) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("NOT SHOWN BEFORE THE FIX: equal, bit for bit"));
  const Outcome traced = validate("main..never --coverage", "python3 train.py");
  EXPECT_EQ(traced.status, 1) << traced.err;
  EXPECT_THAT(traced.out,
              HasSubstr("NOT SHOWN: no rank executed a changed line: library/training"));
  const Outcome executed = validate("main..never --coverage", kJob);
  EXPECT_THAT(executed.out, HasSubstr("STILL THERE")) << "the fault is another one";
}

INSTANTIATE_TEST_SUITE_P(Soak, ValidateInSoak, testing::Values(0));

}  // namespace
}  // namespace lockstep
