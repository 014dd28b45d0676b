// Ranks that train nothing: that others are judged without them, and what is said of their copies.

#include "harness/verdict/bystander_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/digest.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/judge_run.h"
#include "reports/record/result.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::HasSubstr;

const LiteralEvidence::Tensor kBefore{Kind::parameter, Phase::pre_forward, 0};
const LiteralEvidence::Tensor kAfter{Kind::parameter, Phase::post_step, 0};

std::string digest_of(float value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return to_text(digest_run(bytes, 0));
}

/// Ranks 0 and 1 train two parameters in 5 steps, after each of which they have its number as
/// value. The others train nothing.
class JobWithBystanders {
 public:
  explicit JobWithBystanders(int ranks = 3)
      : files_(ranks), run_(literal_run_of_job(files_, ranks)) {
    for (int rank = 0; rank < 2; ++rank) {
      files_.add(rank, 1, "frozen", {9}, kBefore);
      for (const char* const name : {"a", "b"}) {
        files_.add(rank, 1, name, {0}, kBefore);
        for (int step = 1; step <= 5; ++step) {
          files_.add(rank, step, name, {1});
          files_.add(rank, step, name, {static_cast<float>(step)}, kAfter);
        }
      }
    }
    for (int rank = 2; rank < ranks; ++rank) record().bystanders.push_back(rank);
  }

  JobRecord& record() { return run_.jobs[0]; }

  void copy(const std::string& name, float value, std::vector<int> ranks = {2}) {
    record().copies.push_back({name, digest_of(value), std::move(ranks)});
  }

  JobRecord judged() {
    files_.write_as([&](int rank) { return process_identity(record(), rank); });
    RunRecord run = run_;
    judge_run(run, files_.folder().parent_path(), {IndexUse::ignored});
    return run.jobs[0];
  }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

bool agrees(const JobRecord& job) {
  return job.results.at(0).verdict == Verdict::holds && job.results.at(1).verdict == Verdict::holds;
}

TEST(Bystander, IsNotExpectedToTrain) {
  JobWithBystanders job;
  const JobRecord judged = job.judged();
  EXPECT_TRUE(agrees(judged)) << judged.results[0].reason;
  EXPECT_THAT(judged.notes, Contains("rank 2 has no optimizer, and is not compared"));
  JobWithBystanders unknown;
  unknown.record().bystanders.clear();
  EXPECT_EQ(unknown.judged().results[0].reason, "rank 2 observed none of the gradients");
}

/// One of several that train is not compared with itself.
TEST(Bystander, LeavesAJobUndecidedWhoseOnlyOtherRankIsOne) {
  LiteralEvidence files(2);
  files.add(0, 1, "a", {1}, kAfter);
  RunRecord run = literal_run_of_job(files, 2);
  run.jobs[0].bystanders = {1};
  files.write_as([&](int rank) { return process_identity(run.jobs[0], rank); });
  judge_run(run, files.folder().parent_path(), {IndexUse::ignored});
  EXPECT_EQ(run.jobs[0].results[1].verdict, Verdict::undecided);
}

using Copies = std::vector<std::pair<const char*, float>>;

/// Of a job whose rank 2 has them.
std::vector<std::string> notes_with(const Copies& copies) {
  JobWithBystanders job;
  for (const auto& [name, value] : copies) job.copy(name, value);
  job.copy("of no training", 3);
  const JobRecord judged = job.judged();
  EXPECT_TRUE(agrees(judged));
  return judged.notes;
}

TEST(BystanderCopies, AreThoseOfAStep) {
  const std::string rank = "rank 2 has no optimizer, and is not compared: ";
  EXPECT_THAT(notes_with({{"a", 5}, {"b", 5}}),
              Contains(rank + "its 2 parameters are those of the others after step 5"));
  EXPECT_THAT(
      notes_with({{"a", 0}, {"b", 0}}),
      Contains(rank + "its 2 parameters are those of the others before step 1, not after step 5"));
  EXPECT_THAT(
      notes_with({{"a", 3}, {"b", 5}}),
      Contains(rank + "1 of its 2 parameters (a) is that of the others after step 3, not after "
                      "step 5"));
}

TEST(BystanderCopies, OfOtherValuesSayNothing) {
  EXPECT_THAT(notes_with({{"a", 7}, {"b", 8}}),
              Contains("rank 2 has no optimizer, and is not compared"));
}

constexpr const char* kOneIsNew = "its 1 parameter is that of the others after step 5";

TEST(BystanderCopies, OfFrozenParametersAreNotOld) {
  EXPECT_THAT(notes_with({{"frozen", 9}, {"a", 5}}), Contains(HasSubstr(kOneIsNew)));
}

/// As of a model that is generated with, and one that it is compared with.
TEST(BystanderCopies, OfOneNameAreTheLatest) {
  EXPECT_THAT(notes_with({{"a", 0}, {"a", 5}}), Contains(HasSubstr(kOneIsNew)));
}

TEST(BystanderCopies, AreToldOfAllRanksThatAreAlike) {
  JobWithBystanders job(5);
  job.copy("a", 5, {2, 4});
  job.copy("a", 2, {3});
  const auto notes = job.judged().notes;
  EXPECT_THAT(notes, Contains("ranks 2,4 have no optimizer, and are not compared: their 1 "
                              "parameter is that of the others after step 5"));
  EXPECT_THAT(notes, Contains("rank 3 has no optimizer, and is not compared: its 1 parameter "
                              "is that of the others after step 2, not after step 5"));
}

}  // namespace
}  // namespace lockstep
