#include "harness/job/job_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "reports/record/finding_key.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

std::string title_of_job(const std::vector<std::string>& words, const std::string& label = "") {
  WatchRequest request;
  request.job = words;
  request.label = label;
  return record_of_job(request).jobs[0].title;
}

TEST(TitleOfAJob, IsItsScriptAndTheArgumentsOfThat) {
  EXPECT_EQ(title_of_job({"/opt/venv/bin/torchrun", "/home/train.py"}), "train.py");
  EXPECT_EQ(title_of_job({"torchrun", "--nproc-per-node", "2", "src/train.py", "--lr", "1"}),
            "src/train.py --lr 1");
  EXPECT_EQ(title_of_job({"/opt/venv/bin/python", "-m", "torch.distributed.run", "train.py"}),
            "train.py");
  EXPECT_EQ(title_of_job({"./train.sh", "a"}), "./train.sh a");
  EXPECT_EQ(title_of_job({"/opt/venv/bin/python", "-m", "train"}), "python -m train");
  EXPECT_LT(title_of_job({"train.py", std::string(50'000, 'x')}).size(), 90);
  EXPECT_EQ(title_of_job({"/opt/venv/bin/torchrun"}, "mine"), "mine");
  EXPECT_EQ(title_of_job({}), "");
}

/// In keys of findings.
TEST(LabelOfAJob, IsItsScriptAlone) {
  const auto label = [](std::vector<std::string> command) {
    WatchRequest request;
    request.job = std::move(command);
    return label_of(record_of_job(request).jobs[0]);
  };
  EXPECT_EQ(label({"/opt/venv/bin/torchrun", "/home/train.py", "--port", "1"}), "train.py");
  EXPECT_EQ(label({"torchrun", "src/train.py", "--lr", "1"}), "src/train.py");
  EXPECT_EQ(label({"/opt/venv/bin/python", "-m", "torch.distributed.run", "train.py"}), "train.py");
  EXPECT_EQ(label({"torchrun", "-m", "pkg.train", "--lr", "1"}), "pkg.train");
  EXPECT_EQ(label({"./train.sh", "a"}), "./train.sh");
  EXPECT_EQ(label({"python", "-m"}), "python");
  EXPECT_EQ(label({}), "");
  WatchRequest named;
  named.job = {"train.py"};
  named.label = "nightly run";
  EXPECT_EQ(label_of(record_of_job(named).jobs[0]), "nightly run");
}

TEST(RecordOfAJob, HasTheWholeCommand) {
  WatchRequest request;
  request.job = {"/bin/true"};
  request.command = {"lockstep", "watch", "--", "/bin/true"};
  EXPECT_THAT(record_of_job(request).command,
              testing::ElementsAre("lockstep", "watch", "--", "/bin/true"));
}

/// The facts of ranks, each with its changes of hyperparameters, known until `until`.
JobRecord job_of(const std::vector<std::string>& changes, int until = 9) {
  const TemporaryFolder folder;
  JobRecord job;
  job.folder = "job";
  std::filesystem::create_directories(folder.path() / job.folder);
  for (std::size_t rank = 0; rank < changes.size(); ++rank) {
    std::ofstream(folder.path() / job.folder / fmt::format("rank-{}.watch.json", rank))
        << fmt::format(R"({{"rank": {}, "world_size": {}, "torch": "2", "hyperparameters": [{}], )"
                       R"("hyperparameters_until": {}}})",
                       rank, changes.size(), changes[rank], until);
  }
  add_ranks(job, folder.path(), {});
  return job;
}

std::string change(int step, const std::string& name, const std::string& value) {
  return fmt::format(R"({{"step": {}, "values": {{"{}": "{}"}}}})", step, name, value);
}

TEST(HyperparametersOfAJob, ComeApartInTheFirstStepWithOtherValues) {
  const std::string begin = change(1, "SGD.lr", "1");
  const JobRecord job = job_of({begin + ", " + change(4, "SGD.lr", "2"), begin, begin});
  ASSERT_EQ(job.settings_apart.size(), 1U);
  EXPECT_EQ(job.settings_apart[0].name, "SGD.lr");
  EXPECT_EQ(job.settings_apart[0].step, 4);
  const std::vector<Setting> values{{"SGD.lr", "1", {1, 2}}, {"SGD.lr", "2", {0}}};
  EXPECT_EQ(job.settings_apart[0].values, values);
}

TEST(HyperparametersOfAJob, AreNotApartIfAllChangeThem) {
  const std::string both = change(1, "SGD.lr", "1") + ", " + change(4, "SGD.lr", "2");
  EXPECT_TRUE(job_of({both, both}).settings_apart.empty());
}

/// The configuration has those that differ from the start.
TEST(HyperparametersOfAJob, AreNotAmongThemIfTheyDifferFromTheStart) {
  EXPECT_TRUE(job_of({change(1, "SGD.lr", "1"), change(1, "SGD.lr", "2")}).settings_apart.empty());
}

/// A rank that was killed has noted less than the others.
TEST(HyperparametersOfAJob, AreComparedAsFarAsAllRanksKnowThem) {
  const std::string begin = change(1, "SGD.lr", "1");
  EXPECT_TRUE(job_of({begin + ", " + change(4, "SGD.lr", "2"), begin}, 3).settings_apart.empty());
}

}  // namespace
}  // namespace lockstep
