#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/judge.h"
#include "harness/judge/ranks/exits.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

ClaimResult judge_ends(const std::vector<RankExit>& exits) {
  CellEvidence cell;
  cell.claims = {ranks_finish()};
  cell.exits = exits;
  return judge(cell).front();
}

std::string sentence_of(const RankExit& end) { return judge_ends({end}).findings.at(0).sentence; }

TEST(ErrorsOfJobs, AreToldWithTheSentenceThatNamesATensor) {
  EXPECT_EQ(
      telling_sentences(
          "RuntimeError: Expected to mark a variable ready only once. This error is caused by "
          "one of the following reasons: 1) Use of torch.nn.parallel in train.py. Training "
          "loop.2) Reused parameters.\nParameter at index 5 with name block.down.bias has been "
          "marked as ready twice. This means more."),
      "RuntimeError: Parameter at index 5 with name block.down.bias has been marked as ready "
      "twice. Expected to mark a variable ready only once.");
  EXPECT_EQ(telling_sentences("ValueError: bad layers.0.weight. See /a/b.c.d or torch.nn.Linear."),
            "ValueError: bad layers.0.weight.");
  for (const char* none : {"ValueError: no. See https://pytorch.org/docs.html for more.",
                           "OSError: cannot read /data/set.part.bin. Version 2.10.1 is old.",
                           "KeyError: 'x'. In train.py and kernel.cu."}) {
    EXPECT_EQ(telling_sentences(none), first_sentence(none));
  }
  EXPECT_EQ(telling_sentences(""), "");
}

/// Of torch's data loader, of torch.multiprocessing, and what has no end.
TEST(TellingSentences, AreThoseOfAnErrorThatWasCaughtElsewhere) {
  const std::string frames =
      "Traceback (most recent call last):\n"
      "  File \"/lib/worker.py\", line 358, in _worker_loop\n    data = fetcher.fetch(index)\n"
      "           ^^^^^^^^^^^^^\n  File \"/a/train.py\", line 22, in __getitem__\n    return "
      "a[i]\n";
  EXPECT_EQ(
      telling_sentences("KeyError: Caught KeyError in DataLoader worker process 1.\nOriginal " +
                        frames + "KeyError: 'image'\n"),
      "KeyError: 'image', in DataLoader worker process 1");
  EXPECT_EQ(telling_sentences("ProcessRaisedException: \n\n-- Process 1 terminated with the "
                              "following error:\n" +
                              frames + "ValueError: bad row. See x.\n  of two\n"),
            "ValueError: bad row");
  EXPECT_EQ(telling_sentences("E: Caught E in replica 0 on device 0.\nOriginal " + frames),
            "E: Caught E in replica 0 on device 0.");
}

TEST(Endings, ThatAreNotKnownAreUndecided) {
  EXPECT_EQ(judge_ends({}).verdict, Verdict::undecided);
}

TEST(Endings, ThatComeBeforeTheCulpritsAreTheirOwn) {
  const ClaimResult result = judge_ends(
      {exit_of(0, ExitKind::unfinished, 0), exit_of(1, ExitKind::raised, 1, "the genuine reason")});
  EXPECT_EQ(result.findings.size(), 2U);
}

TEST(Endings, OfPeersOfARankThatDidNotFinishAreNoFindings) {
  const ClaimResult result = judge_ends(
      {exit_of(0, ExitKind::raised, 0, "Broken pipe"), exit_of(1, ExitKind::unfinished, 1)});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].failure->rank, 1);
}

TEST(Endings, ThatNobodySawAreFindingsUnlessTheLauncherIsKnownToHaveMadeThem) {
  RankExit lost = exit_of(0, ExitKind::unfinished, 1);
  lost.cause = ExitCause::unseen;
  const RankExit raised = exit_of(1, ExitKind::raised, 0, "the genuine reason");
  EXPECT_EQ(judge_ends({lost, raised}).findings.size(), 2U);
  lost.cause = ExitCause::peer_failed;
  const ClaimResult result = judge_ends({lost, raised});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].failure->rank, 1);
}

/// As `watch` sees ranks that torchrun ends after another one was killed: nobody knows the order.
TEST(Endings, OfRanksThatTheLauncherEndedAreNoFindingsWhateverTheirOrder) {
  RankExit ended = exit_of(0, ExitKind::unfinished, 0);
  ended.cause = ExitCause::peer_failed;
  const ClaimResult result = judge_ends({ended, exit_of(1, ExitKind::signalled, 0)});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].failure->rank, 1);
}

TEST(Endings, OfAStoppedRankAreFindingsWhateverEndedBefore) {
  RankExit stopped = exit_of(0, ExitKind::unfinished, 1);
  stopped.cause = ExitCause::stopped;
  const RankExit raised = exit_of(1, ExitKind::raised, 0, "the genuine reason");
  EXPECT_EQ(judge_ends({stopped, raised}).findings.size(), 2U);
}

TEST(Endings, ByASignalAreFindingsWhateverWasSaid) {
  const ClaimResult result = judge_ends({exit_of(0, ExitKind::raised, 0, "the genuine reason"),
                                         exit_of(1, ExitKind::signalled, 1, "Broken pipe")});
  EXPECT_EQ(result.findings.size(), 2U);
}

TEST(Endings, TellTheFirstSentenceOfTheError) {
  EXPECT_EQ(sentence_of(exit_of(1, ExitKind::raised, 0, "One. Two.\nThree")),
            "rank 1 raised an error in step 2: One.");
  EXPECT_EQ(sentence_of(exit_of(1, ExitKind::raised, 0, "one\ntwo. three")),
            "rank 1 raised an error in step 2: one.");
}

TEST(Endings, TellAllThatAWantOfMemorySays) {
  EXPECT_EQ(sentence_of(exit_of(1, ExitKind::raised, 0,
                                "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has more.\n"
                                "Exception raised from")),
            "rank 1 raised an error in step 2: CUDA out of memory. Tried to allocate 2.00 MiB. GPU "
            "0 has more.");
}

TEST(Endings, HaveTheKindOfTheExit) {
  const auto kind_of = [](ExitKind kind) {
    return judge_ends({exit_of(1, kind, 0)}).findings.at(0).kind;
  };
  EXPECT_EQ(kind_of(ExitKind::raised), FindingKind::rank_raised_error);
  EXPECT_EQ(kind_of(ExitKind::signalled), FindingKind::rank_killed);
  EXPECT_EQ(kind_of(ExitKind::exited), FindingKind::rank_exited_early);
  EXPECT_EQ(kind_of(ExitKind::unfinished), FindingKind::rank_hung);
  EXPECT_EQ(kind_of(ExitKind::unstarted), FindingKind::rank_not_started);
  RankExit gone = exit_of(1, ExitKind::unfinished, 0);
  gone.cause = ExitCause::unseen;
  EXPECT_EQ(judge_ends({gone}).findings.at(0).kind, FindingKind::rank_disappeared);
}

TEST(Endings, BeforeTheFirstStepNameNone) {
  RankExit end = exit_of(0, ExitKind::raised, 0);
  end.step = 1;
  EXPECT_EQ(sentence_of(end), "rank 0 raised an error in step 1.");
  end.is_after_step = true;
  EXPECT_EQ(sentence_of(end), "rank 0 raised an error after step 1.");
  end.step = 0;
  EXPECT_EQ(sentence_of(end), "rank 0 raised an error.");
}

/// Gradients differ in these steps, each in its own phase and claim; rank 1 raises in step 2.
Finding error_with_damage_in(const std::vector<std::int64_t>& damaged_steps) {
  LiteralEvidence files(2);
  CellEvidence cell;
  cell.world_size = 2;
  cell.claims = {ranks_finish()};
  for (const std::int64_t step : damaged_steps) {
    const Phase phase = step % 2 == 0 ? Phase::pre_step : Phase::post_backward;
    for (int rank = 0; rank < 2; ++rank) {
      files.add(rank, step, "w", {static_cast<float>(rank)}, {Kind::gradient, phase, 0});
    }
    cell.claims.push_back(agree_across_ranks(Kind::gradient, phase));
  }
  const StepReader evidence = files.write();
  cell.evidence = &evidence;
  cell.exits = {exit_of(0, ExitKind::finished, 1), exit_of(1, ExitKind::raised, 0, "too late")};
  return judge(cell).front().findings.at(0);
}

TEST(Endings, LagBehindTheFirstDamage) { EXPECT_EQ(error_with_damage_in({2, 1}).failure->lag, 1); }

TEST(Endings, InTheStepOfTheDamageAreNotLate) {
  const Finding finding = error_with_damage_in({2});
  EXPECT_EQ(finding.failure->lag, 0);
  EXPECT_THAT(finding.sentence, Not(HasSubstr("earlier")));
}

TEST(Endings, BeforeTheDamageHaveNoLag) {
  EXPECT_EQ(error_with_damage_in({3}).failure->lag, std::nullopt);
}

RankExit end_after(int rank, ExitKind kind, std::int64_t step, std::string error = "") {
  RankExit end = exit_of(rank, kind, 0, std::move(error));
  end.step = step;
  end.is_after_step = kind != ExitKind::finished;
  return end;
}

ClaimResult judge_ends_of_job(const std::vector<RankExit>& exits) {
  CellEvidence cell;
  cell.is_job = true;
  cell.claims = {ranks_finish()};
  cell.exits = exits;
  return judge(cell).front();
}

TEST(Leaving, IsTheFindingAndNotTheErrorsOfThoseThatWaited) {
  const ClaimResult result =
      judge_ends_of_job({end_after(0, ExitKind::raised, 5, "Connection closed by peer"),
                         end_after(1, ExitKind::finished, 4),
                         end_after(2, ExitKind::raised, 5, "Connection reset by peer")});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.kind, FindingKind::rank_exited_early);
  EXPECT_EQ(finding.groups, (std::vector<std::vector<int>>{{1}, {0, 2}}));
  EXPECT_EQ(finding.sentence,
            "rank 1 ended by itself after step 4, while ranks 0,2 waited for it after step 5. Rank "
            "0 raised an error after step 5: Connection closed by peer.");
  EXPECT_EQ(finding.failure->error, "Connection closed by peer");
}

TEST(Leaving, IsNoReasonForErrorsOfTheirOwnOrInEarlierSteps) {
  const auto ends = [](std::int64_t lost, const std::string& error) {
    return judge_ends_of_job(
               {end_after(0, ExitKind::raised, lost, error), end_after(1, ExitKind::finished, 4)})
        .findings.at(0);
  };
  EXPECT_EQ(ends(4, "Broken pipe").kind, FindingKind::rank_exited_early);
  EXPECT_EQ(ends(3, "Broken pipe").kind, FindingKind::rank_raised_error);
  EXPECT_EQ(ends(5, "the genuine reason").kind, FindingKind::rank_raised_error);
}

TEST(Leaving, IsNoneIfARankDied) {
  const ClaimResult result = judge_ends_of_job({end_after(0, ExitKind::raised, 5, "Broken pipe"),
                                                end_after(1, ExitKind::finished, 4),
                                                end_after(2, ExitKind::signalled, 5)});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].kind, FindingKind::rank_killed);
}

TEST(Leaving, IsNoneIfAllFinished) {
  EXPECT_EQ(
      judge_ends_of_job({end_after(0, ExitKind::finished, 4), end_after(1, ExitKind::finished, 4)})
          .verdict,
      Verdict::holds);
}

TEST(Endings, OfARankThatNobodyKnowsOfAreUndecided) {
  LiteralEvidence files(2);
  const ClaimResult result =
      judge_one(ranks_finish(), files.write(), nullptr, {exit_of(0, ExitKind::finished, 0)});
  EXPECT_EQ(result.verdict, Verdict::undecided);
}

}  // namespace
}  // namespace lockstep
