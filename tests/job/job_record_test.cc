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
        << fmt::format(R"({{"rank": {}, "world_size": {}, "torch": "2", "configuration": )"
                       R"({{"SGD.lr": "1"}}, "hyperparameters": [{}], )"
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

/// The configuration has those that differ from the start, but no states.
TEST(HyperparametersOfAJob, AreNotAmongThemIfTheyDifferFromTheStart) {
  EXPECT_TRUE(job_of({change(1, "SGD.lr", "1"), change(1, "SGD.lr", "2")}).settings_apart.empty());
  const JobRecord loaded =
      job_of({change(1, "SGD.state", "empty"), change(1, "SGD.state", "not empty")});
  ASSERT_EQ(loaded.settings_apart.size(), 1U);
  EXPECT_EQ(loaded.settings_apart[0].step, 1);
}

/// A rank that was killed has noted less than the others.
TEST(HyperparametersOfAJob, AreComparedAsFarAsAllRanksKnowThem) {
  const std::string begin = change(1, "SGD.lr", "1");
  EXPECT_TRUE(job_of({begin + ", " + change(4, "SGD.lr", "2"), begin}, 3).settings_apart.empty());
}

/// Of ranks with these facts besides.
JobRecord job_with(const std::vector<std::string>& facts) {
  std::vector<std::string> changes;
  // In place of the hyperparameters, which are a list.
  for (const std::string& own : facts) changes.push_back("], " + own + R"(, "more": [)");
  return job_of(changes);
}

TEST(FactsOfRanks, AreOnePerSteps) {
  const std::string joined = R"("joined": [{"after": 3, "until": 5}, {"after": 8, "until": 0}])";
  const JobRecord job = job_with({R"("joined": [])", joined, joined});
  EXPECT_EQ(job.joined, (std::vector<JoinedRanks>{{{1, 2}, 3, 5}, {{1, 2}, 8, 0}}));
  EXPECT_TRUE(has_joined(job.joined, 1, 4));
  EXPECT_TRUE(has_joined(job.joined, 2, 5));
  EXPECT_TRUE(has_joined(job.joined, 2, 100));
  for (const std::int64_t step : {3, 6, 8}) EXPECT_FALSE(has_joined(job.joined, 1, step));
  EXPECT_FALSE(has_joined(job.joined, 0, 4));
}

TEST(FactsOfRanks, AboutAModelWithoutOptimizerHoldWhereAllRanksSawThem) {
  const auto fact = [](int first, int last) {
    return fmt::format(
        R"("untrained": [{{"optimizer": "SGD", "place": "train.py:1", "is_sharded": true, )"
        R"("held": 3, "first_step": {}, "last_step": {}, "parameters": ["a"]}}])",
        first, last);
  };
  EXPECT_EQ(job_with({fact(1, 4), fact(2, 8)}).untrained,
            (std::vector<Untrained>{{"SGD", "train.py:1", true, 3, 2, 4, {0, 1}, {"a"}}}));
}

TEST(FactsOfRanks, AboutTheOrderOfParametersAreOneWhereTheyAreAlike) {
  const auto fact = [](const char* order) {
    return fmt::format(
        R"("parameter_orders": [{{"wrapper": "DDP", "count": 2, "names": "n", "order": "{}"}}])",
        order);
  };
  const PairedParameters first{"DDP", 2, "n", "ab", {0}};
  EXPECT_EQ(job_with({fact("ab"), fact("ba")}).parameter_orders,
            (std::vector<PairedParameters>{first, {"DDP", 2, "n", "ba", {1}}}));
  EXPECT_EQ(job_with({fact("ab"), fact("ab")}).parameter_orders.at(0).ranks,
            (std::vector<int>{0, 1}));
}

TEST(FactsOfRanks, AboutBrokenTiesHoldWhereAllRanksSawThem) {
  const auto fact = [](int step) {
    return fmt::format(R"("broken_ties": [{{"parameters": ["a", "b"], "step": {}}}])", step);
  };
  EXPECT_EQ(job_with({fact(2), fact(4)}).broken_ties,
            (std::vector<BrokenTie>{{4, {0, 1}, {"a", "b"}}}));
}

TEST(FactsOfRanks, AboutParametersThatWereNotAlikeWhenTheyWereDivided) {
  const auto fact = [](int number, const char* first, const char* second) {
    return fmt::format(R"("divided": [{{"wrapper": "FSDP", "place": "a.py:3", "number": {}, )"
                       R"("parameters": ["w", "b"], "digests": ["{}", "{}"]}}])",
                       number, first, second);
  };
  const JobRecord job = job_with({fact(0, "12", "00"), fact(0, "34", "00"), fact(0, "12", "00")});
  EXPECT_EQ(job.divided_apart, (std::vector<DividedApart>{{"FSDP", "a.py:3", 2, {"w"}}}));
  EXPECT_TRUE(job_with({fact(0, "12", "00"), fact(0, "12", "00")}).divided_apart.empty());
  EXPECT_TRUE(job_with({fact(0, "12", "00"), fact(1, "34", "11")}).divided_apart.empty())
      << "of other calls";
}

TEST(FactsOfRanks, AboutDevicesAndMemory) {
  const auto fact = [](int gpu, int bytes) {
    return fmt::format(
        R"("devices": [{{"device": "cuda:0", "id": "GPU-{}", "parameters": 3, "names": []}}, )"
        R"({{"device": "cpu", "id": "", "parameters": 1, "names": ["head"]}}], )"
        R"("peak_bytes": {}, "peak_device_bytes": {})",
        gpu, bytes, gpu * bytes);
  };
  const JobRecord job = job_with({fact(0, 100), fact(1, 500), fact(1, 300)});
  EXPECT_EQ(job.devices, (std::vector<DeviceUse>{{"cpu", "", 1, {0, 1, 2}, {"head"}},
                                                 {"cuda:0", "GPU-0", 3, {0}, {}},
                                                 {"cuda:0", "GPU-1", 3, {1, 2}, {}}}));
  EXPECT_EQ(job.host_memory, (PeakMemory{500, 1, 100, 0}));
  EXPECT_EQ(job.device_memory, (PeakMemory{500, 1, 300, 2})) << "rank 0 used no GPU";
  EXPECT_FALSE(job_with({R"("peak_bytes": -7)"}).host_memory);
}

TEST(FactsOfRanks, AboutSamplersAreOneWhereTheyAreAlike) {
  const auto fact = [](int part) {
    return fmt::format(
        R"("samplers": [{{"name": "DistributedSampler", "place": "train.py:1", "samples": 4, )"
        R"("parts": 2, "part": {}, "seed": 7, "passes": 3, "repeats": 2}}])",
        part);
  };
  EXPECT_EQ(job_with({fact(0), fact(1), fact(0)}).samplers,
            (std::vector<SamplerUse>{{"DistributedSampler", "train.py:1", 4, 2, 0, 7, 3, 2, {0, 2}},
                                     {"DistributedSampler", "train.py:1", 4, 2, 1, 7, 3, 2, {1}}}));
}

TEST(FactsOfRanks, AboutSchedulersAreThoseThatDiffer) {
  const auto fact = [](int steps, int step) {
    return fmt::format(
        R"("schedules": [{{"name": "StepLR", "optimizer": "SGD", "steps": {}, "step": {}}}], )"
        R"("optimizers": {{"SGD": "train.py:1"}})",
        steps, step);
  };
  const JobRecord job = job_with({fact(3, 4), fact(0, 4)});
  EXPECT_EQ(job.schedules, (std::vector<ScheduleSteps>{{"StepLR", "SGD", 0, 4, {1}},
                                                       {"StepLR", "SGD", 3, 4, {0}}}));
  EXPECT_EQ(job.optimizers, (std::vector<Setting>{{"SGD", "train.py:1", {0, 1}}}));
  EXPECT_TRUE(job_with({fact(3, 4), fact(3, 4)}).schedules.empty());
  EXPECT_TRUE(job_with({fact(3, 4), fact(5, 6)}).schedules.empty()) << "of different steps";
}

}  // namespace
}  // namespace lockstep
