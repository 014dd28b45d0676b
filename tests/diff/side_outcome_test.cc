#include "harness/diff/side_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

/// DDP's own text, shortened at its dots.
const std::string kTwice =
    "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the "
    "following reasons: ...\nParameter at index 5 with name block.down.bias has been marked as "
    "ready "
    "twice. This means that multiple autograd engine hooks have fired ...";

Finding ending(FindingKind kind, int rank, const std::string& error, std::int64_t step = 0) {
  Finding finding;
  finding.claim = ranks_finish();
  finding.kind = kind;
  finding.step = step;
  finding.failure =
      RankFailure{rank, "raised an error at train.py:31", error, "", std::nullopt, "train.py:31"};
  finding.sentence = "as the judge says it";
  return finding;
}

/// Two ranks that raised `error`.
JobRecord raising(const std::string& error) {
  JobRecord job;
  job.world_size = job.processes = 2;
  ClaimResult result{ranks_finish(), Verdict::violated};
  for (int rank = 0; rank < 2; ++rank) {
    job.exits.push_back({.rank = rank, .kind = ExitKind::raised, .error = error});
    result.findings.push_back(ending(FindingKind::rank_raised_error, rank, error));
  }
  job.results = {result};
  return job;
}

ComparedSide side_of(const JobRecord& job) {
  ComparedSide side;
  add_outcome(
      job, [](const std::string& name) { return name == "block.down.bias"; }, side);
  return side;
}

TEST(SideOutcome, IsAnErrorWithTheSentenceThatNamesATensor) {
  const ComparedSide side = side_of(raising(kTwice));
  EXPECT_EQ(side.outcome, SideOutcome::raised);
  EXPECT_EQ(side.fault->tensor, "block.down.bias");
  EXPECT_EQ(side.fault->sentence,
            "raised an error at train.py:31 before its first step on ranks 0,1: RuntimeError: "
            "Expected to mark a variable ready only once. Parameter at index 5 with name "
            "block.down.bias has been marked as ready twice.");
}

TEST(SideOutcome, KnowsThatMemoryIsUsedUp) {
  for (const char* error :
       {"OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "MemoryError",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. "
        "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."}) {
    EXPECT_EQ(side_of(raising(error)).outcome, SideOutcome::out_of_memory) << error;
  }
  EXPECT_EQ(side_of(raising("ValueError: no such sample")).outcome, SideOutcome::raised);
}

/// A job whose ranks agree, with a finding of a claim about it.
JobRecord agreeing_with(const Claim& claim, const std::string& sentence) {
  JobRecord job;
  job.exits.resize(2);
  Finding finding;
  finding.claim = claim;
  finding.sentence = sentence;
  ClaimResult result;
  result.claim = claim;
  result.verdict = Verdict::violated;
  result.findings = {finding};
  job.results = {result};
  return job;
}

TEST(SideOutcome, IsWrongIfTheJobItselfShowsSo) {
  for (const Claim& claim : {reduce_over_ranks(), are_trained(), use_held_weights(), stay_tied(),
                             update_parts_alike()}) {
    const ComparedSide side = side_of(agreeing_with(claim, "gradients lack those of rank 1."));
    EXPECT_EQ(side.outcome, SideOutcome::wrong);
    EXPECT_EQ(side.fault->sentence, "gradients lack those of rank 1.");
  }
  const ComparedSide side = side_of(agreeing_with(divide_samples(), "all ranks saw the same."));
  EXPECT_EQ(side.outcome, SideOutcome::trained) << "the samples of both sides are compared";
}

/// The one that lost its peer is a consequence.
TEST(SideOutcome, IsTheErrorOfTheRankThatFailedByItself) {
  JobRecord job = raising(kTwice);
  job.exits[0].cause = ExitCause::lost_peer;
  job.exits[0].error = job.results[0].findings[0].failure->error = "Connection closed by peer";
  EXPECT_EQ(side_of(job).fault->failure->rank, 1);
}

TEST(SideOutcome, IsThatOfACommandThatFailedBeforeAnyRank) {
  JobRecord job;
  job.command_error = "ImportError: cannot import name 'fixed' from 'model'";
  const ComparedSide side = side_of(job);
  EXPECT_EQ(side.outcome, SideOutcome::raised);
  EXPECT_EQ(side.fault->sentence,
            "raised an error before its first step: ImportError: cannot import "
            "name 'fixed' from 'model'");
}

TEST(SideOutcome, IsADeathWithoutAnError) {
  JobRecord job = raising("");
  job.exits[0].kind = ExitKind::signalled;
  job.results[0].findings = {ending(FindingKind::rank_killed, 0, "", 3)};
  const ComparedSide side = side_of(job);
  EXPECT_EQ(side.outcome, SideOutcome::died);
  EXPECT_EQ(side.fault->sentence, "as the judge says it");
}

TEST(SideOutcome, IsAHangOfRanksThatStandStill) {
  JobRecord job = raising("");
  for (RankExit& end : job.exits) {
    end.kind = ExitKind::unfinished;
    end.cause = ExitCause::no_progress;
  }
  job.mismatch.emplace();
  job.symptom.kind = SymptomKind::mismatched;
  job.results[0].findings = {ending(FindingKind::rank_hung, 1, "", 3)};
  const ComparedSide side = side_of(job);
  EXPECT_EQ(side.outcome, SideOutcome::hung);
  EXPECT_EQ(side.fault->sentence, "hung: as the judge says it");
}

TEST(SideOutcome, IsThatItsRanksDifferIfTheyEnded) {
  JobRecord job;
  job.world_size = job.processes = 2;
  EXPECT_EQ(side_of(job).outcome, SideOutcome::trained);
  ClaimResult result{agree_across_ranks(Kind::gradient, Phase::pre_step), Verdict::violated};
  result.findings.emplace_back();
  result.findings[0].claim = result.claim;
  result.findings[0].kind = FindingKind::gradients_differ;
  result.findings[0].step = 3;
  job.results = {result};
  EXPECT_EQ(side_of(job).outcome, SideOutcome::ranks_differ);
  job.results[0].claim = job.results[0].findings[0].claim =
      stay_finite(Kind::parameter, Phase::post_step);
  EXPECT_EQ(side_of(job).outcome, SideOutcome::not_finite);
}

}  // namespace
}  // namespace lockstep
