#include "harness/record/stalled_calls.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/rank_status.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// {"number": 7, ...}; `step` -1: unknown.
std::string call_text(int number, bool is_complete, int step) {
  return fmt::format(
      R"({{"group": "world", "number": {}, "operation": "allreduce", "dtype": "float",
          "shape": "[4]", "tensors": 1, "elements": 4, "is_complete": {}, "age_ns": 5,
          "site": "train.py:6", "step": {}}})",
      number, is_complete, step);
}

/// What a rank of two answers. `first`: its first call on record.
std::string answer_text(int request, int first, const std::string& calls) {
  return fmt::format(
      R"({{"request": {}, "is_joining": false, "awaits_message": false, "stands_s": 0,
          "groups": [{{"title": "world", "ranks": [0, 1], "first": {}}}],
          "calls": [{}], "threads": [{{"function": "main", "site": "train.py:9", "stack": []}}]}})",
      request, first, calls);
}

class StalledCalls : public testing::Test {
 protected:
  StalledCalls() {
    stall_.world_size = 2;
    stall_.request = 3;
    stall_.is_open = true;
    stall_.seen_ns = 1000;
  }

  void answers(int rank, const std::string& text) {
    write_whole_file(folder_.path() / fmt::format("rank-{}.stall.json", rank), text);
    if (keep_answer(folder_.path(), rank, stall_)) {
      stall_.ranks.push_back({rank, StalledState::answered, 2});
    }
  }

  std::map<int, std::vector<Collective>> calls() {
    write_stall(folder_.path(), stall_);
    return stalled_calls({folder_.path()});
  }

  /// Numbers in the group, 0: its join.
  static std::vector<std::uint64_t> numbers(const std::vector<Collective>& calls) {
    std::vector<std::uint64_t> all;
    for (const Collective& call : calls) all.push_back(call.number);
    return all;
  }

  TemporaryFolder folder_;
  Stall stall_;
};

TEST_F(StalledCalls, AreThoseThatTheRanksAnswered) {
  answers(0, answer_text(3, 7, call_text(7, true, 2) + "," + call_text(8, false, 3)));
  answers(1, answer_text(3, 7, call_text(7, true, -1)));
  const auto all = calls();
  EXPECT_THAT(numbers(all.at(0)), ElementsAre(0, 7, 8));
  EXPECT_THAT(numbers(all.at(1)), ElementsAre(0, 7));
  const Collective& open = all.at(0).back();
  EXPECT_EQ(open.state, CollectiveState::entered);
  EXPECT_EQ(open.step, 3);
  EXPECT_EQ(open.entered_ns, 995);
  EXPECT_EQ(open.completed_ns, 0);
  EXPECT_EQ(open.group_size, 2);
  EXPECT_EQ(all.at(1).back().step, -1);
  EXPECT_EQ(all.at(1).back().completed_ns, 995);
}

TEST_F(StalledCalls, LeaveOutWhatOneRankNoLongerHas) {
  answers(0, answer_text(3, 6, call_text(6, true, 2) + "," + call_text(7, false, 3)));
  answers(1, answer_text(3, 7, ""));
  EXPECT_THAT(numbers(calls().at(0)), ElementsAre(0, 7));
}

TEST_F(StalledCalls, OfASilentRankAreThoseItCounted) {
  answers(0, answer_text(3, 6, call_text(6, true, 2) + "," + call_text(7, false, 3)));
  stall_.ranks.push_back({1, StalledState::silent, 2, "", {6}});
  const auto all = calls();
  EXPECT_THAT(numbers(all.at(1)), ElementsAre(0, 6));
  EXPECT_EQ(all.at(1)[1].state, CollectiveState::completed);
}

TEST_F(StalledCalls, AreNoneIfNoRankIsInACollectiveOrTheStallIsOver) {
  answers(0, answer_text(3, 7, call_text(7, true, 2)));
  stall_.is_open = false;
  EXPECT_THAT(calls(), IsEmpty());
  stall_.is_open = stall_.is_over = true;
  EXPECT_THAT(calls(), IsEmpty());
  EXPECT_THAT(stalled_calls({folder_.path() / "nowhere"}), IsEmpty());
}

TEST_F(StalledCalls, OfAnotherRequestDoNotCount) {
  answers(0, answer_text(2, 7, call_text(7, false, 3)));
  EXPECT_THAT(stall_.ranks, IsEmpty());
  EXPECT_TRUE(fs::exists(folder_.path() / "rank-0.stall.json"));
}

TEST_F(StalledCalls, ThatAreMalformedAreRefused) {
  for (const char* text : {"", "{", "[]", R"({"request": "x"})", R"({"request": 3})"}) {
    write_whole_file(folder_.path() / "rank-0.stall.json", text);
    EXPECT_THROW(keep_answer(folder_.path(), 0, stall_), Error) << text;
  }
  for (const char* text : {"", "[]", R"({"ranks": 3})"}) {
    write_whole_file(folder_.path() / "stall.json", text);
    EXPECT_THROW(read_stall(folder_.path()), Error) << text;
  }
  fs::remove(folder_.path() / "stall.json");
  for (const std::string& text : {std::string(), std::string("[]"), answer_text(0, 7, "")}) {
    write_whole_file(folder_.path() / "rank-0.ended.json", text);
    EXPECT_THROW(stalled_calls({folder_.path()}), Error) << text;
  }
}

/// What a rank notes at its end. `size`: of the call that it made last, number 8.
std::string end_text(bool is_abort, int size, const std::string& more = "") {
  std::string text =
      answer_text(0, 7, call_text(7, true, 2) + "," + call_text(8, !is_abort, 3) + more);
  const auto last = text.rfind(R"("elements": 4)");
  text.replace(last, 13, fmt::format(R"("elements": {})", size));
  text.insert(1, fmt::format(R"("is_abort": {}, "now_ns": 2000, )", is_abort));
  return text;
}

TEST_F(StalledCalls, WithoutAStallAreThoseThatRanksNotedWhenOneAborted) {
  write_whole_file(folder_.path() / "rank-0.ended.json", end_text(true, 4));
  write_whole_file(folder_.path() / "rank-1.ended.json", end_text(false, 9));
  const auto all = stalled_calls({folder_.path()});
  EXPECT_THAT(numbers(all.at(0)), ElementsAre(0, 7, 8));
  EXPECT_EQ(all.at(0).back().state, CollectiveState::entered);
  EXPECT_EQ(all.at(0).back().entered_ns, 1995);
  EXPECT_EQ(all.at(1).back().state, CollectiveState::failed);
  EXPECT_EQ(all.at(1).back().elements, 9U);
}

TEST_F(StalledCalls, ThatAnEndedRankNeverMadeSayNothing) {
  write_whole_file(folder_.path() / "rank-0.ended.json", end_text(true, 4));
  write_whole_file(folder_.path() / "rank-1.ended.json",
                   end_text(false, 4, "," + call_text(9, true, 3)));
  const auto all = stalled_calls({folder_.path()});
  EXPECT_THAT(numbers(all.at(1)), ElementsAre(0, 7, 8));
}

TEST_F(StalledCalls, OfAGroupWithARankThatNotedNothingAreNone) {
  write_whole_file(folder_.path() / "rank-0.ended.json", end_text(true, 4));
  EXPECT_THAT(numbers(stalled_calls({folder_.path()}).at(0)), ElementsAre(0));
}

TEST_F(StalledCalls, AreNoneIfErrorsEndedTheRanksAndNoneAborted) {
  write_whole_file(folder_.path() / "rank-0.ended.json", end_text(false, 4));
  write_whole_file(folder_.path() / "rank-1.ended.json", end_text(false, 9));
  EXPECT_THAT(stalled_calls({folder_.path()}), IsEmpty());
}

/// Errors of the transport: each rank waited in its call.
TEST_F(StalledCalls, AreKnownIfRanksGaveUpInDifferentOnes) {
  const std::string lost =
      "RuntimeError: Timed out waiting 20000ms for recv operation to complete.";
  const auto ends = [&](const std::string& operation, const std::string& error) {
    write_whole_file(folder_.path() / "rank-0.ended.json", end_text(false, 4));
    std::string other = end_text(false, 4);
    other.replace(other.rfind("allreduce"), 9, operation);
    write_whole_file(folder_.path() / "rank-1.ended.json", other);
    for (const int rank : {0, 1}) {
      RankStatus status;
      status.step = 2;
      status.raised = true;
      status.error = rank == 0 ? lost : error;
      write_rank_status(rank_status_file(folder_.path(), rank), status);
    }
    return stalled_calls({folder_.path()});
  };
  const auto all = ends("broadcast", lost);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.at(1).back().operation, "broadcast");
  EXPECT_EQ(all.at(1).back().state, CollectiveState::failed);
  EXPECT_THAT(ends("allreduce", lost), IsEmpty()) << "the network, or a slow rank";
  EXPECT_THAT(ends("recv", lost), IsEmpty()) << "a message";
  EXPECT_THAT(ends("broadcast", "ValueError: no shard"), IsEmpty()) << "an error of its own";
}

TEST_F(StalledCalls, OfAStallCountMoreThanThoseOfTheEnd) {
  write_whole_file(folder_.path() / "rank-0.ended.json", end_text(true, 4));
  answers(0, answer_text(3, 7, call_text(7, false, 3)));
  EXPECT_THAT(numbers(calls().at(0)), ElementsAre(0, 7));
}

TEST_F(StalledCalls, AreJoinedFromTheFoldersOfMachines) {
  answers(0, answer_text(3, 7, call_text(7, false, 3)));
  calls();
  const TemporaryFolder other;
  Stall sleeping = stall_;
  sleeping.is_open = false;
  sleeping.ranks = {{1, StalledState::answered, 2}};
  write_whole_file(other.path() / "rank-1.stall.json", answer_text(3, 7, ""));
  ASSERT_TRUE(keep_answer(other.path(), 1, sleeping));
  write_stall(other.path(), sleeping);
  const auto all = stalled_calls({folder_.path(), other.path()});
  EXPECT_THAT(numbers(all.at(0)), ElementsAre(0, 7));
  EXPECT_THAT(numbers(all.at(1)), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep
