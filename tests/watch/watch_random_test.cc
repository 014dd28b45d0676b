// Random trainings, healthy and with a planted fault: nothing is missed, and nothing is found that
// is not there. A few are in the quick tests, many in the soak.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/job/job_process.h"
#include "harness/job/job_record.h"
#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "reports/formats/job_report.h"
#include "reports/record/result.h"
#include "tests/command.h"
#include "tests/scenarios/seeds.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Counts {
  int healthy = 0, faulty = 0;
  std::vector<std::string> missed = {}, false_alarms = {};
};

std::string told(const std::string& training, const nlohmann::json& expected,
                 const JobRecord& job) {
  return fmt::format("{}: {}, found: {}; {}", training, expected.dump(), heading_of(job),
                     fmt::join(lines_of(job), "; "));
}

/// Whether a finding is the planted fault. Null: it may be any.
bool is_planted(const nlohmann::json& expected, const Finding* finding) {
  const auto is = [&](const char* key, const nlohmann::json& value) {
    return expected.at(key).is_null() || expected.at(key) == value;
  };
  return finding && is("kind", name(*finding->claim.kind)) && is("step", finding->step) &&
         is("tensor", finding->tensor);
}

/// Some faults leave open whether they are one: `exits` has 2, too. The report has the words
/// `says`, if given, and names the tensor of a job that is undecided.
bool is_judged_right(const nlohmann::json& expected, const JobRecord& job) {
  const int status = exit_of(job, JobEnd{});
  const std::vector<int> exits = expected.value("exits", std::vector<int>{1});
  if (std::find(exits.begin(), exits.end(), status) == exits.end()) return false;
  const std::string report = told("", expected.at("tensor"), job);
  const auto says = [&](const std::string& words) {
    return report.find(words, report.find("found: ")) != std::string::npos;
  };
  if (!says(expected.value("says", ""))) return false;
  if (status != 1) return expected.at("tensor").is_null() || says(expected.at("tensor"));
  return is_planted(expected, first_difference(job)) || is_planted(expected, first_not_finite(job));
}

/// Compares the result of a training with its `expected.json`.
void count(const std::string& training, const nlohmann::json& expected, const JobRecord& job,
           Counts& counts) {
  const nlohmann::json& found = expected.at("found");
  if (found.is_null()) {
    ++counts.healthy;
    if (first_fault_of_values(job) || exit_of(job, JobEnd{}) != 0) {
      counts.false_alarms.push_back(told(training, expected, job));
    }
    return;
  }
  ++counts.faulty;
  if (!is_judged_right(found, job)) counts.missed.push_back(told(training, expected, job));
}

nlohmann::json expected_in(const fs::path& folder) {
  return nlohmann::json::parse(text_of(folder / "expected.json"));
}

void expect_none_wrong(const Counts& counts) {
  std::printf("%d healthy, %d false alarms; %d faulty, %d missed\n", counts.healthy,
              static_cast<int>(counts.false_alarms.size()), counts.faulty,
              static_cast<int>(counts.missed.size()));
  EXPECT_GT(counts.healthy, 0);
  EXPECT_GT(counts.faulty, 0);
  for (const std::string& one : counts.false_alarms) ADD_FAILURE() << "false alarm: " << one;
  for (const std::string& one : counts.missed) ADD_FAILURE() << "missed: " << one;
}

/// Many trainings by one pair of ranks. `kind_of_training`: as random_trainings.py takes it.
void train_and_judge(int first, int count_of_trainings, const std::string& kind_of_training) {
  const TemporaryFolder folder;
  const Outcome outcome = run_shell(
      fmt::format("PYTHONPATH={0}/harness/watch/python/start LOCKSTEP_WATCH_LIBRARY={1} "
                  "LOCKSTEP_WATCH_FOLDER={2} "
                  "LOCKSTEP_WATCH_JOB=none OMP_NUM_THREADS=1 {3} {2} {4} {5} {6}",
                  LOCKSTEP_SOURCE_DIR, LOCKSTEP_WATCH_LIBRARY, folder.path().string(),
                  forked_ranks("random_trainings"), first, count_of_trainings, kind_of_training));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Counts counts;
  for (int seed = first; seed < first + count_of_trainings; ++seed) {
    for (const char* const kind : {"healthy", "faulty"}) {
      const std::string training = fmt::format("{}-{}", kind, seed);
      RunRecord run = record_of_job({});
      run.jobs[0].id = training;
      add_ranks(run.jobs[0], folder.path() / training, JobEnd{});
      judge_run(run, folder.path() / training);
      count(training, expected_in(folder.path() / training), run.jobs[0], counts);
    }
  }
  expect_none_wrong(counts);
}

TEST(RandomWatchedTrainings, AreJudgedRight) {
  const std::vector<int> all = seeds(20);
  train_and_judge(all.front(), static_cast<int>(all.size()), "");
}

/// With autocast, adapters, optimizers that reduce, skipped steps and the like.
TEST(RandomWatchedTrainings, OfEverydayJobsAreJudgedRight) {
  const std::vector<int> all = seeds(4);
  train_and_judge(all.front(), static_cast<int>(all.size()), "everyday");
}

/// Each by ranks of its own, started by the command.
TEST(RandomWatchedTrainings, AreJudgedRightOneByOne) {
  Counts counts;
  for (const int seed : seeds(1)) {
    for (const char* const kind : {"healthy", "faulty"}) {
      const TemporaryFolder folder;
      const fs::path out = folder.path() / "run";
      const Outcome outcome = run_shell(fmt::format(
          "{} watch --out {} -- env WATCHED={} {} {} {} 1", LOCKSTEP_PROGRAM, out.string(), kind,
          forked_ranks("random_trainings"), folder.path().string(), seed));
      EXPECT_EQ(outcome.status, kind == std::string("healthy") ? 0 : 1) << outcome.err;
      const RunRecord run = load_record(out);
      count(fmt::format("{}-{}", kind, seed), expected_in(folder.path()), run.jobs.at(0), counts);
    }
  }
  expect_none_wrong(counts);
}

}  // namespace
}  // namespace lockstep
