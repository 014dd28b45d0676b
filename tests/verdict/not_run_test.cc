#include "harness/verdict/not_run.h"

#include <gtest/gtest.h>

#include "harness/verdict/expectation.h"
#include "harness/verdict/symptom.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

/// The exit of a rank that reached `state` in the rendezvous, before its first step.
RankExit unmet(int rank, ExitKind ending, RendezvousState state, const std::string& error = "") {
  RankExit end = exit_of(rank, ending, rank, error);
  end.step = 0;
  end.rendezvous = state;
  return end;
}

RankExit came_late(int rank, RendezvousState state = RendezvousState::begun) {
  RankExit end = unmet(rank, ExitKind::unfinished, state);
  end.detail = "limit of 60 s";
  end.cause = ExitCause::time_limit;
  end.limit_s = 60;
  return end;
}

const RankExit kNoFiles = unmet(1, ExitKind::raised, RendezvousState::failed,
                                "Too many open files. No descriptor is left.\nframe #0: c10d");

TEST(CellThatWasNotRun, IsOneWhoseRanksAllWaitedInTheRendezvousUntilTheLimit) {
  const auto why = why_not_run({came_late(0), came_late(1)});
  ASSERT_TRUE(why);
  EXPECT_EQ(why->cause, NotRunCause::no_rendezvous);
  EXPECT_EQ(why->reason, "the ranks could not meet within their limit of 60 s");
}

TEST(CellThatWasNotRun, GivesTheErrorThatTheRendezvousRaised) {
  const auto why = why_not_run({unmet(0, ExitKind::unfinished, RendezvousState::begun), kNoFiles});
  ASSERT_TRUE(why);
  EXPECT_EQ(why->reason, "the ranks could not meet: rank 1 raised: Too many open files.");
}

TEST(CellThatWasNotRun, GivesNoLossOfAPeerWhereARankHasAReasonOfItsOwn) {
  const auto why = why_not_run({unmet(0, ExitKind::raised, RendezvousState::failed,
                                      "Connection closed by peer [127.0.0.1]:9"),
                                kNoFiles});
  ASSERT_TRUE(why);
  EXPECT_EQ(why->reason, "the ranks could not meet: rank 1 raised: Too many open files.");
}

TEST(CellThatWasNotRun, IsOneOfWhichAProcessCouldNotBeMade) {
  RankExit none = exit_of(1, ExitKind::unstarted, 1);
  none.detail = "Resource temporarily unavailable";
  const auto why = why_not_run({unmet(0, ExitKind::unfinished, RendezvousState::begun), none});
  ASSERT_TRUE(why);
  EXPECT_EQ(why->cause, NotRunCause::no_process);
  EXPECT_EQ(why->reason, "rank 1 could not be started (Resource temporarily unavailable)");
}

TEST(CellThatWasNotRun, IsNoneWhereABodyFailedBeforeTheRendezvous) {
  for (const ExitKind ending : {ExitKind::raised, ExitKind::exited, ExitKind::signalled}) {
    const RankExit own = unmet(1, ending, RendezvousState::not_begun, "no such file");
    EXPECT_FALSE(why_not_run({came_late(0), own}));
    EXPECT_FALSE(why_not_run({own, own}));
  }
}

TEST(CellThatWasNotRun, IsNoneWhereARankNeverCameToTheRendezvous) {
  EXPECT_FALSE(why_not_run({came_late(0), came_late(1, RendezvousState::not_begun)}));
}

TEST(CellThatWasNotRun, IsNoneWhereARankMetTheOthers) {
  EXPECT_FALSE(why_not_run({came_late(0), came_late(1, RendezvousState::met)}));
  EXPECT_FALSE(why_not_run({kNoFiles, came_late(0, RendezvousState::met)}));
}

TEST(CellThatWasNotRun, IsNoneWhereARecordDoesNotSayHowFarRanksGot) {
  RankExit unknown = came_late(0);
  unknown.rendezvous.reset();
  EXPECT_FALSE(why_not_run({unknown, unknown}));
  EXPECT_FALSE(why_not_run({}));
}

TEST(CellThatWasNotRun, MakesNoClaimAndIsUndecided) {
  CellRecord cell;
  cell.processes = 2;
  cell.claims = {ranks_finish()};
  cell.not_run = NotRun{NotRunCause::no_rendezvous, "the ranks could not meet"};
  check_expectation(cell);
  EXPECT_EQ(cell.verdict, CellVerdict::undecided);
  ASSERT_EQ(cell.checks.size(), 1U);
  EXPECT_EQ(cell.checks[0].promise, "is run");
  EXPECT_EQ(cell.checks[0].text, "the ranks could not meet");
  EXPECT_EQ(symptom_of_unrun("", cell.not_run).text, "not run: the ranks could not meet");
}

}  // namespace
}  // namespace lockstep
