// The first sentence of jobs that hung, raised, were killed or lost a rank.

#include "harness/verdict/job_ending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Longer ones do not fit on two lines of a screen.
constexpr std::size_t kMostOfASentence = 160;

RankExit standing(int rank, const std::string& function, const std::string& place) {
  RankExit end;
  end.rank = rank;
  end.kind = ExitKind::unfinished;
  end.cause = ExitCause::no_progress;
  end.step = 3;
  end.place = place;
  end.stack = {"_engine_run_backward, graph.py:869", function + ", " + place, "<module>, a.py:1"};
  return end;
}

/// A rank in a call from point to point.
RankExit awaiting(int rank, const std::string& place) {
  RankExit end = standing(rank, "recv", place);
  end.awaits_message = true;
  return end;
}

RankExit finished(int rank) {
  RankExit end;
  end.rank = rank;
  return end;
}

RankExit raised(int rank, const std::string& error) {
  RankExit end;
  end.rank = rank;
  end.kind = ExitKind::raised;
  end.step = 3;
  end.error = error;
  end.place = "finetune.py:55";
  end.stack = {"load_batch, finetune.py:55", "main, finetune.py:70"};
  return end;
}

/// A rank whose end nobody saw, in step 2.
RankExit unseen(int rank, const std::string& detail, bool is_after_step) {
  RankExit end;
  end.rank = rank;
  end.kind = ExitKind::unfinished;
  end.cause = ExitCause::unseen;
  end.step = 2;
  end.is_after_step = is_after_step;
  end.detail = detail;
  return end;
}

CollectiveMismatch wait_in(const std::string& group, std::vector<int> culprits,
                           std::vector<int> waiting, int world_size, const std::string& call,
                           const std::string& site) {
  CollectiveMismatch missed;
  missed.group = group;
  missed.number = 8;
  missed.step = 3;
  missed.culprits = std::move(culprits);
  missed.waiting = std::move(waiting);
  missed.sentence = "rank 1 never entered collective 8.";
  CollectiveRow row{8, 3, std::vector<CallOfRank>(static_cast<std::size_t>(world_size)), true};
  for (const int rank : missed.waiting) {
    row.calls[static_cast<std::size_t>(rank)] = {call, site, true, 4};
  }
  missed.rows = {row};
  return missed;
}

/// The sentence of a job of which these are the exits. `blocking`: its mismatches.
std::string sentence(const std::vector<RankExit>& exits,
                     const std::vector<CollectiveMismatch>& blocking = {},
                     const std::vector<CollectiveMismatch>& open = {},
                     std::int64_t wrong_step = 0) {
  CellFacts facts;
  facts.is_job = true;
  facts.exits = &exits;
  facts.all_finished = all_finished(exits);
  facts.analysis.blocking = blocking;
  facts.analysis.open = open.empty() ? blocking : open;
  for (const RankExit& end : exits) {
    if (end.kind == ExitKind::finished) continue;
    facts.culprits.push_back(&end);
    if (blocking.empty()) facts.unexplained.push_back(&end);
  }
  const auto symptom = ending_of_job(facts, wrong_step);
  EXPECT_LE(symptom ? symptom->text.size() : 0, kMostOfASentence);
  return symptom ? symptom->text : "";
}

TEST(JobEnding, IsNoneOfAJobThatFinished) { EXPECT_EQ(sentence({finished(0), finished(1)}), ""); }

TEST(JobEnding, NamesThePlaceOfARankThatOthersWaitFor) {
  const std::vector<RankExit> exits = {standing(0, "main", "finetune.py:72"),
                                       standing(1, "load_batch", "finetune.py:53")};
  EXPECT_EQ(
      sentence(exits, {wait_in("world", {1}, {0}, 2, "allreduce float [212]", "finetune.py:72")}),
      "hang in step 3: rank 1 is in load_batch (finetune.py:53); rank 0 waits for it in an "
      "all-reduce (finetune.py:72)");
}

TEST(JobEnding, NamesTheLineOfAModuleWithoutFunction) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:72"),
                                       standing(1, "<module>", "a.py:53")};
  EXPECT_EQ(sentence(exits, {wait_in("world", {1}, {0}, 2, "broadcast int [1]", "")}),
            "hang in step 3: rank 1 is at a.py:53; rank 0 waits for it in a broadcast");
}

TEST(JobEnding, CountsRanksAtOtherPlaces) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:72"),
                                       standing(1, "load", "a.py:5"), standing(2, "load", "a.py:5"),
                                       standing(3, "save", "a.py:9")};
  EXPECT_EQ(sentence(exits, {wait_in("world", {1, 2, 3}, {0}, 4, "_allgather_base", "a.py:72")}),
            "hang in step 3: ranks 1,2 are in load (a.py:5), 1 more rank elsewhere; rank 0 waits "
            "for them in an all-gather (a.py:72)");
}

TEST(JobEnding, NamesBothCallsOfRanksThatWaitForEachOther) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:92"),
                                       standing(1, "main", "a.py:93")};
  const std::vector<CollectiveMismatch> open = {
      wait_in("1", {1}, {0}, 2, "allreduce float [2]", "a.py:92"),
      wait_in("2", {0}, {1}, 2, "allreduce float [2]", "a.py:93")};
  EXPECT_EQ(sentence(exits, {wait_in("1", {0, 1}, {}, 2, "", "")}, open),
            "hang in step 3: rank 0 waits for rank 1 in an all-reduce of group 1 (a.py:92), rank 1 "
            "for rank 0 in an all-reduce of group 2 (a.py:93)");
}

TEST(JobEnding, NamesThePlaceOfARankThatSendsNothing) {
  EXPECT_EQ(sentence({awaiting(0, "a.py:72"), standing(1, "load", "a.py:53")}),
            "hang in step 3: rank 1 is in load (a.py:53); rank 0 waits for a message (a.py:72)");
  EXPECT_EQ(sentence({awaiting(0, "a.py:72"), standing(1, "load", "a.py:53"),
                      awaiting(2, "a.py:72"), awaiting(3, "")}),
            "hang in step 3: rank 1 is in load (a.py:53); ranks 0,2 wait for messages (a.py:72), "
            "rank 3");
}

TEST(JobEnding, NamesTheCallsOfRanksThatAllWaitForMessages) {
  EXPECT_EQ(sentence({awaiting(0, "a.py:7"), awaiting(1, "a.py:7")}),
            "hang in step 3: ranks 0,1 wait for messages (a.py:7), and no rank sends one");
  EXPECT_EQ(sentence({awaiting(0, "a.py:7"), awaiting(1, "a.py:8"), awaiting(2, "a.py:9")}),
            "hang in step 3: rank 0 waits for a message (a.py:7), rank 1 (a.py:8), others "
            "elsewhere, and no rank sends one");
}

/// Of a pipeline with replicas: the rank that misses in a collective waits itself.
TEST(JobEnding, LooksBehindMessagesForTheRankThatAllWaitFor) {
  const std::vector<CollectiveMismatch> missed = {
      wait_in("dp", {2}, {1}, 4, "allreduce float [212]", "a.py:80")};
  EXPECT_EQ(sentence({standing(0, "load", "a.py:53"), standing(1, "main", "a.py:80"),
                      awaiting(2, "a.py:72")},
                     missed),
            "hang in step 3: rank 0 is in load (a.py:53); rank 2 waits for a message (a.py:72); "
            "rank 1 waits for it in an all-reduce (a.py:80)");
  EXPECT_EQ(sentence({awaiting(0, "a.py:72"), standing(1, "main", "a.py:80"),
                      standing(2, "save", "a.py:9")},
                     missed),
            "hang in step 3: rank 2 is in save (a.py:9); rank 1 waits for it in an all-reduce "
            "(a.py:80)");
}

TEST(JobEnding, ShowsCallsThatDiffer) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:87"),
                                       standing(1, "main", "a.py:99")};
  CollectiveMismatch missed = wait_in("world", {1}, {0}, 2, "allreduce float [4]", "a.py:87");
  missed.fault = MismatchFault::operation;
  missed.rows[0].calls[1] = {"barrier", "a.py:99", true, 4};
  EXPECT_EQ(sentence(exits, {missed}),
            "hang in step 3: rank 0 calls allreduce float [4] (a.py:87), rank 1 barrier (a.py:99)");
  missed.rows[0].calls[1] = missed.rows[0].calls[0];  // another root, say
  EXPECT_EQ(sentence(exits, {missed}), "hang in step 3: rank 1 never entered collective 8");
}

TEST(JobEnding, SaysThatAllRanksAreInOneCall) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:87"),
                                       standing(1, "main", "a.py:87")};
  CollectiveMismatch missed = wait_in("world", {}, {0, 1}, 2, "broadcast float [4]", "a.py:87");
  missed.fault = MismatchFault::stuck;
  EXPECT_EQ(sentence(exits, {missed}),
            "hang in step 3: ranks 0,1 are all in a broadcast (a.py:87), and none leaves it");
}

TEST(JobEnding, NamesThePlaceOfARankThatNeverJoined) {
  const std::vector<RankExit> exits = {standing(0, "main", "a.py:53"),
                                       standing(1, "main", "a.py:50")};
  CollectiveMismatch missed = wait_in("world", {1}, {0}, 2, "", "");
  missed.fault = MismatchFault::not_started;
  EXPECT_EQ(sentence(exits, {missed}),
            "hang in step 3: rank 1 is in main (a.py:50); rank 0 waits for it to join the group "
            "world (a.py:53)");
}

TEST(JobEnding, SaysThatAProcessWasStopped) {
  RankExit stopped = standing(1, "main", "");
  stopped.cause = ExitCause::stopped;
  EXPECT_EQ(sentence({finished(0), stopped}),
            "hang in step 3: the process of rank 1 was stopped by a signal");
}

TEST(JobEnding, SaysWhereARankStandsWithoutCollectives) {
  EXPECT_EQ(sentence({standing(0, "load", "a.py:5")}),
            "hang in step 3: rank 0 is in load (a.py:5)");
}

TEST(JobEnding, NamesRankStepErrorAndLine) {
  EXPECT_EQ(sentence({finished(0), raised(1, "ValueError: corrupt shard: part-00013.parquet")}),
            "raised on rank 1 in step 3: ValueError: corrupt shard: part-00013.parquet, at "
            "load_batch (finetune.py:55)");
}

TEST(JobEnding, NamesAllRanksWithTheSameError) {
  EXPECT_THAT(sentence({raised(0, "ValueError: no."), raised(1, "ValueError: no.")}),
              StartsWith("raised on ranks 0,1 in step 3: ValueError: no, at "));
}

TEST(JobEnding, CutsALongErrorAndKeepsItsPlace) {
  EXPECT_THAT(sentence({finished(0), raised(1, "KeyError: " + std::string(400, 'x'))}),
              AllOf(HasSubstr("xxx [...], at load_batch"), EndsWith("(finetune.py:55)")));
}

TEST(JobEnding, KeepsTheFirstSentenceOfALongError) {
  const std::string first =
      "RuntimeError: parameter 5 with name block.bias was marked ready twice. ";
  EXPECT_THAT(sentence({finished(0), raised(1, first + std::string(200, 'X'))}),
              HasSubstr("was marked ready twice, at load_batch"));
}

TEST(JobEnding, SaysThatAnErrorCameAfterAWrongStep) {
  EXPECT_THAT(sentence({finished(0), raised(1, "ValueError: no")}, {}, {}, 2),
              StartsWith("raised on rank 1 in step 3 after a wrong step 2: ValueError"));
}

TEST(JobEnding, NamesTheSignalThatKilled) {
  RankExit end;
  end.rank = 1;
  end.kind = ExitKind::signalled;
  end.code = 9;
  end.step = 2;
  end.is_after_step = true;
  end.detail = "SIGKILL: out of memory?";
  EXPECT_EQ(sentence({finished(0), end}),
            "killed: rank 1, by SIGKILL (out of memory?), after step 2");
  end.peak_bytes = 3'120'000'000;
  EXPECT_EQ(sentence({finished(0), end}),
            "killed: rank 1, by SIGKILL (out of memory?), after step 2; 3.1 GB at its last step");
  end.detail = "SIGSEGV";
  end.peak_bytes = 310'000'000;
  EXPECT_EQ(sentence({finished(0), end}),
            "killed: rank 1, by SIGSEGV, after step 2; 310 MB at its last step");
}

TEST(JobEnding, SaysThatARankDisappeared) {
  EXPECT_EQ(sentence({finished(0), unseen(1, "", false)}), "rank 1 disappeared in step 2");
}

TEST(JobEnding, SaysThatARankAborted) {
  EXPECT_EQ(sentence({unseen(0, "aborted at its all_reduce in main (a.py:87)", true), finished(1)}),
            "rank 0 aborted at its all_reduce in main (a.py:87) after step 2");
}

}  // namespace
}  // namespace lockstep
