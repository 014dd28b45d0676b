#include "harness/job/rank_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::HasSubstr;

JobEnd job_end(int status, int interrupted_by = 0, bool is_cut = false) {
  return {status, interrupted_by, is_cut};
}

RankStatus status_that(bool ended, const std::string& error = "") {
  RankStatus status;
  status.step = 4;
  status.ended = ended;
  status.raised = !error.empty();
  status.error = error;
  return status;
}

struct Row {
  const char* what;
  RankEndFacts facts;
  ExitKind kind;
  ExitCause cause;
};

const std::string kClosedByPeer = "RuntimeError: [gloo] Connection closed by peer [::1]:20371";

std::vector<Row> rows() {
  return {
      {"returned",
       {.status = status_that(true), .job = job_end(0)},
       ExitKind::finished,
       ExitCause::none},
      {"said nothing, and its command succeeded",
       {.job = job_end(0)},
       ExitKind::finished,
       ExitCause::none},
      {"raised",
       {.status = status_that(true, "ValueError: no"), .job = job_end(1)},
       ExitKind::raised,
       ExitCause::none},
      {"lost a peer",
       {.status = status_that(true, kClosedByPeer), .job = job_end(1)},
       ExitKind::raised,
       ExitCause::lost_peer},
      {"was killed, as its launcher saw",
       {.status = status_that(false), .signal = 9, .job = job_end(1)},
       ExitKind::signalled,
       ExitCause::none},
      {"was killed after a peer had raised",
       {.status = status_that(false), .signal = 9, .job = job_end(1), .has_peer_raised = true},
       ExitKind::signalled,
       ExitCause::none},
      {"was asked to end",
       {.status = status_that(false), .signal = 15, .job = job_end(1)},
       ExitKind::unfinished,
       ExitCause::unseen},
      {"was interrupted",
       {.status = status_that(true, "KeyboardInterrupt"), .job = job_end(130, 2)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"swallowed the interrupt",
       {.status = status_that(true), .job = job_end(1, 2)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"finished although interrupted",
       {.status = status_that(true), .job = job_end(0, 2)},
       ExitKind::finished,
       ExitCause::none},
      {"runs", {}, ExitKind::unfinished, ExitCause::interrupted},
      {"was killed with its launcher",
       {.job = job_end(137)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"vanished", {.job = job_end(1)}, ExitKind::unfinished, ExitCause::unseen},
      {"vanished after a peer raised",
       {.job = job_end(143), .has_peer_raised = true},
       ExitKind::unfinished,
       ExitCause::unseen},
      {"was ended because ranks differ",
       {.job = job_end(143, 0, true), .has_peer_raised = true},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"was asked to end by a launcher that saw a peer die",
       {.signal = SIGTERM, .job = job_end(1), .has_peer_been_killed = true},
       ExitKind::unfinished,
       ExitCause::peer_failed},
      {"was asked to end, and nobody failed",
       {.signal = SIGTERM, .job = job_end(1)},
       ExitKind::unfinished,
       ExitCause::unseen},
      {"was asked to end because the user interrupts",
       {.signal = SIGTERM, .job = job_end(130, SIGINT), .has_peer_raised = true},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"aborted",
       {.aborted_in = "train.py:6", .job = job_end(143)},
       ExitKind::unfinished,
       ExitCause::unseen},
      {"aborted after it had returned",
       {.status = status_that(true), .aborted_in = "exit.py:1", .job = job_end(134)},
       ExitKind::finished,
       ExitCause::none},
      {"is not observed any more",
       {.status = status_that(true), .hook_failure = "no room", .job = job_end(0)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"trains in another process",
       {.status = status_that(true), .moved = Elsewhere{77, 4}, .job = job_end(0)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"forked a helper, and trained on",
       {.status = status_that(true), .moved = Elsewhere{77, 3}, .job = job_end(0)},
       ExitKind::finished,
       ExitCause::none},
      {"raised after it had forked",
       {.status = status_that(true, "ValueError: no"),
        .moved = Elsewhere{77, 4},
        .job = job_end(1)},
       ExitKind::raised,
       ExitCause::none},
      {"trains on",
       {.trains_on = true, .job = job_end(0)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"is on another machine",
       {.is_on_other_machine = true, .job = job_end(0)},
       ExitKind::unfinished,
       ExitCause::elsewhere},
      {"stood still until its job was ended",
       {.status = status_that(true), .stalled = StalledState::answered, .job = job_end(0, 0, true)},
       ExitKind::unfinished,
       ExitCause::interrupted},
      {"had ended when others stood still",
       {.status = status_that(true), .stalled = StalledState::ended, .job = job_end(0, 0, true)},
       ExitKind::finished,
       ExitCause::none},
      {"stood still, and went on",
       {.status = status_that(true), .stalled = StalledState::answered, .job = job_end(0)},
       ExitKind::finished,
       ExitCause::none},
  };
}

TEST(RankEnd, FollowsFromTheFactsByOneTable) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.what);
    const RankExit end = exit_of_rank(row.facts);
    EXPECT_EQ(name(end.kind), name(row.kind));
    EXPECT_EQ(name(end.cause), name(row.cause));
  }
}

TEST(RankEnd, OfOneOnAnotherMachineIsUnknownWhateverElseHolds) {
  for (Row& row : rows()) {
    row.facts.is_on_other_machine = true;
    EXPECT_EQ(exit_of_rank(row.facts).cause, ExitCause::elsewhere) << row.what;
    EXPECT_FALSE(has_raised(row.facts)) << row.what;
  }
}

TEST(RankEnd, NamesThePlaceOfAnErrorThatEndedIt) {
  RankEndFacts facts{.status = status_that(true, "ValueError: no"), .error_place = "train.py:6"};
  EXPECT_EQ(exit_of_rank(facts).place, "train.py:6");
  EXPECT_EQ(exit_of_rank(facts).error, "ValueError: no");
  facts.status.error = "KeyboardInterrupt";
  EXPECT_EQ(exit_of_rank(facts).place, "");
}

TEST(RankEnd, SaysWhatItsKindDoesNot) {
  EXPECT_THAT(exit_of_rank({.hook_failure = "no room"}).detail, HasSubstr("no room"));
  EXPECT_EQ(exit_of_rank({.aborted_in = "train.py:6"}).detail, "aborted in train.py:6");
  EXPECT_EQ(exit_of_rank({.aborted_in = "main, train.py:6"}).detail,
            "aborted in main (train.py:6)");
  EXPECT_EQ(exit_of_rank({.aborted_in = ""}).detail, "aborted");
  EXPECT_EQ(exit_of_rank({.aborted_in = "train.py:6", .aborted_call = "all_gather"}).detail,
            "aborted at its all_gather in train.py:6");
  EXPECT_THAT(exit_of_rank({.moved = Elsewhere{77, 0}}).detail, HasSubstr("another process (77)"));
  EXPECT_EQ(exit_of_rank({.trains_on = true}).detail, "it trains on");
  EXPECT_EQ(exit_of_rank({.hook_failure = "no room", .is_on_other_machine = true}).detail, "");
}

TEST(RankEnd, IsAfterAStepWhoseUpdateWasObserved) {
  RankEndFacts facts{.status = status_that(false), .last_step = 4, .is_last_updated = true};
  EXPECT_TRUE(exit_of_rank(facts).is_after_step);
  facts.status.step = 5;
  EXPECT_EQ(exit_of_rank(facts).step, 5);
  EXPECT_FALSE(exit_of_rank(facts).is_after_step);
  facts.job = job_end(0);
  facts.status.step = 4;
  EXPECT_FALSE(exit_of_rank(facts).is_after_step) << "it finished";
  facts.moved = Elsewhere{77, 4};
  facts.is_last_updated = false;
  EXPECT_TRUE(exit_of_rank(facts).is_after_step) << "its process took the step before it forked";
}

}  // namespace
}  // namespace lockstep
