#include "harness/judge/ranks/progress.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <memory>

#include "harness/judge/collectives/analyse_collectives.h"
#include "harness/verdict/symptom.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kLimit = 2;
constexpr double kStillOpen = 0;

/// Two or more ranks that were ended at a limit of 2 s. They joined their group at `came_s`;
/// without a time, no join is recorded. Times are in seconds from their start.
class LateRanks {
 public:
  explicit LateRanks(int world, std::optional<double> came_s = 0.1)
      : files_(world), calls_(static_cast<std::size_t>(world)) {
    for (int rank = 0; rank < world; ++rank) {
      exits_.push_back(late(rank));
      if (!came_s) continue;
      Collective join;
      join.operation = kJoin;
      join.group = "world";
      join.group_size = world;
      enter(rank, join, *came_s, *came_s + 0.01);
    }
  }

  /// A collective of all ranks: the next one for each rank that calls it.
  void call(int rank, std::int64_t step, double entered, double left,
            const std::string& reduction = "sum") {
    Collective call;
    call.operation = "allreduce";
    call.reduction = reduction;
    call.dtype = "float32";
    call.shape = "[4]";
    call.tensors = 1;
    call.elements = 4;
    call.group = "world";
    call.group_size = static_cast<int>(calls_.size());
    call.step = step;
    call.number = calls_.at(static_cast<std::size_t>(rank)).size();
    enter(rank, call, entered, left);
  }

  /// The same call on all ranks at once.
  void all_call(std::int64_t step, double entered, double left) {
    for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
      call(static_cast<int>(rank), step, entered, left);
    }
  }

  void begin_step(int rank, std::int64_t step, double moment) {
    end(rank).step = step;
    end(rank).step_began_ns = ns(moment);
  }

  RankExit& end(int rank) { return exits_.at(static_cast<std::size_t>(rank)); }

  ClaimResult judged(const Claim& claim) {
    CellEvidence cell = judged_cell();
    cell.claims = {claim};
    return judge(cell).front();
  }

  CollectiveAnalysis analysis() { return analyse_collectives(judged_cell()); }

  Symptom symptom() {
    CellEvidence cell = judged_cell();
    cell.claims = {ranks_finish(), kAgree};
    const Judgement judged = judge(cell, facts_of(cell));
    return symptom_of(facts_of(cell), judged.results, judged.wrong_values);
  }

 private:
  static std::int64_t ns(double moment) {
    return 1'000'000'000'000 + static_cast<std::int64_t>(moment * 1e9);
  }

  static RankExit late(int rank) {
    RankExit end = exit_of(rank, ExitKind::unfinished, rank);
    end.detail = "limit of 2 s";
    end.cause = ExitCause::time_limit;
    end.limit_s = kLimit;
    end.ended_ns = ns(kLimit);
    end.rendezvous = RendezvousState::met;
    return end;
  }

  void enter(int rank, Collective call, double entered, double left) {
    auto& log = calls_.at(static_cast<std::size_t>(rank));
    call.seq = log.size();
    call.entered_ns = ns(entered);
    if (left > 0) call.completed_ns = ns(left);
    call.state = left > 0 ? CollectiveState::completed : CollectiveState::entered;
    log.push_back(call);
  }

  /// Overwrites the times in a log with these.
  void write(int rank) {
    const auto& calls = calls_.at(static_cast<std::size_t>(rank));
    const auto file = collective_log_file(files_.folder(), rank);
    {
      CollectiveLog log(file, rank);
      for (const Collective& call : calls) log.enter(call);
    }
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(to_bytes({}).size()));
    for (const Collective& call : calls) stream << to_bytes(call);
  }

  CellEvidence judged_cell() {
    if (!evidence_) {
      for (std::size_t rank = 0; rank < calls_.size(); ++rank) write(static_cast<int>(rank));
      evidence_ = std::make_unique<StepReader>(files_.write());
    }
    CellEvidence cell;
    cell.world_size = static_cast<int>(calls_.size());
    cell.steps = 200'000;
    cell.evidence = evidence_.get();
    cell.exits = exits_;
    return cell;
  }

  LiteralEvidence files_;
  std::vector<std::vector<Collective>> calls_;
  std::vector<RankExit> exits_;
  std::unique_ptr<StepReader> evidence_;
};

/// Repeats a step of 10 ms until `end`.
void train(LateRanks& ranks, double end) {
  std::int64_t step = 1;
  for (double now = 0.12; now + 0.01 < end; now += 0.01, ++step) {
    ranks.all_call(step, now, now + 0.009);
    ranks.begin_step(0, step, now);
    ranks.begin_step(1, step, now);
  }
}

TEST(Progress, UntilTheLimitBlamesNobodyWhoIsBetweenTwoSteps) {
  LateRanks ranks(2);
  train(ranks, 1.995);
  ranks.call(1, 188, 1.998, kStillOpen);
  ranks.begin_step(1, 188, 1.998);
  const ClaimResult finish = ranks.judged(ranks_finish());
  EXPECT_EQ(finish.verdict, Verdict::undecided);
  EXPECT_EQ(finish.reason,
            "still making progress at the limit of 2 s, step 188 of 200000: raise --timeout; rank "
            "1 had waited 0.002 s for rank 0 in collective 188 of the group world");
  EXPECT_EQ(ranks.judged(collectives_match()).verdict, Verdict::undecided);
  EXPECT_FALSE(ranks.analysis().missed) << "no mismatch on record";
  EXPECT_EQ(ranks.symptom().kind, SymptomKind::undecided);
  EXPECT_THAT(ranks.symptom().text, HasSubstr("undecided: still making progress at the limit"));
}

TEST(Progress, UntilTheLimitOfOneRankIsNoFaultOfTheOneThatSawItGo) {
  LateRanks ranks(2, std::nullopt);
  ranks.begin_step(0, 700, 1.999);
  ranks.end(1) = exit_of(1, ExitKind::raised, 1, "Connection closed by peer");
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::undecided);
}

TEST(Progress, UntilTheLimitIsNoMatchOfAllSteps) {
  LateRanks ranks(2);
  train(ranks, 1.995);
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::undecided);
  const ClaimResult match = ranks.judged(collectives_match());
  EXPECT_EQ(match.verdict, Verdict::undecided) << "most steps are still to come";
  EXPECT_THAT(match.reason, HasSubstr("still making progress"));
}

TEST(Progress, ThatEndedShortlyBeforeTheLimitIsNoHangYet) {
  LateRanks ranks(2);
  train(ranks, 1.4);
  ranks.call(1, 129, 1.4, kStillOpen);
  const ClaimResult finish = ranks.judged(ranks_finish());
  EXPECT_EQ(finish.verdict, Verdict::undecided);
  EXPECT_THAT(finish.reason, HasSubstr("rank 1 had waited 0.6 s for rank 0 in collective"));
}

TEST(Progress, ThatEndedLongBeforeTheLimitIsAHang) {
  LateRanks ranks(2);
  train(ranks, 0.3);
  ranks.call(1, 19, 0.3, kStillOpen);
  const ClaimResult finish = ranks.judged(ranks_finish());
  EXPECT_EQ(finish.verdict, Verdict::violated);
  EXPECT_THAT(ranks.analysis().missed.value().culprits, ElementsAre(0));
  EXPECT_THAT(ranks.symptom().text, HasSubstr("not finished: rank 0 never entered"));
}

// A supervisor that watches progress ends ranks without any, however long they trained.
TEST(Progress, ThatWasSeenToEndIsAHangHoweverLongItWas) {
  LateRanks ranks(2);
  train(ranks, 1.4);
  ranks.call(1, 129, 1.4, kStillOpen);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.end(rank).cause = ExitCause::no_progress;
    ranks.end(rank).limit_s = 0.5;
  }
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::violated) << "0.6 s of silence";
  EXPECT_THAT(ranks.analysis().missed.value().culprits, ElementsAre(0));
}

TEST(Progress, ThatWasSeenToEndIsNoneWhereARankActedALittleBefore) {
  LateRanks ranks(2);
  train(ranks, 1.995);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.end(rank).cause = ExitCause::no_progress;
    ranks.end(rank).limit_s = 0.5;
  }
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::undecided);
}

// On a busy machine ranks reach their first call late, so their time counts from then on.
TEST(Progress, CountsFromTheFirstCallOfARank) {
  LateRanks ranks(2, /*came_s=*/1.1);
  ranks.all_call(1, 1.2, 1.25);
  ranks.call(1, 2, 1.3, kStillOpen);
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::violated) << "0.7 of 0.9 s";
}

TEST(Progress, IsNotDeniedToRanksThatHadHardlyAnyTime) {
  LateRanks ranks(2, /*came_s=*/1.8);
  ranks.call(1, 1, 1.85, kStillOpen);
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::undecided) << "0.15 of 2 s";
}

TEST(Progress, OfARankThatWorksOnWhileAnotherWaitsBlamesNobody) {
  LateRanks ranks(2);
  ranks.all_call(1, 0.12, 0.13);
  ranks.call(1, 2, 0.14, kStillOpen);
  ranks.begin_step(0, 1500, 1.99);
  const ClaimResult finish = ranks.judged(ranks_finish());
  EXPECT_EQ(finish.verdict, Verdict::undecided);
  EXPECT_EQ(finish.reason,
            "still making progress at the limit of 2 s, step 1500 of 200000: raise --timeout; rank "
            "1 had waited 1.9 s for rank 0 in collective 2 of the group world");
}

TEST(Progress, IsNoneInABusyLoop) {
  LateRanks ranks(2);
  ranks.all_call(1, 0.12, 0.13);
  ranks.begin_step(0, 2, 0.14);
  ranks.begin_step(1, 2, 0.14);
  ranks.call(1, 2, 0.15, kStillOpen);
  EXPECT_THAT(ranks.judged(ranks_finish()).findings.at(0).groups,
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(Progress, IsNoneWhereAllRanksAreInABusyLoop) {
  LateRanks ranks(2);
  ranks.all_call(1, 0.12, 0.13);
  const ClaimResult finish = ranks.judged(ranks_finish());
  EXPECT_EQ(finish.verdict, Verdict::violated);
  EXPECT_EQ(finish.findings.size(), 2U);
}

TEST(Progress, IsKnownByTheStepsWhereNoCollectiveIsRecorded) {
  LateRanks ranks(2, /*came_s=*/std::nullopt);
  for (const int rank : {0, 1}) ranks.begin_step(rank, 700, 1.999);
  EXPECT_EQ(ranks.judged(ranks_finish()).reason,
            "still making progress at the limit of 2 s, step 700 of 200000: raise --timeout");
  for (const int rank : {0, 1}) ranks.begin_step(rank, 3, 0.5);
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::violated);
}

TEST(Progress, OfOthersDoesNotHideARankThatDied) {
  LateRanks ranks(2);
  train(ranks, 1.995);
  ranks.end(1) = exit_of(1, ExitKind::signalled, 0);
  EXPECT_EQ(ranks.judged(ranks_finish()).verdict, Verdict::violated);
}

TEST(Progress, DoesNotHideAMismatch) {
  LateRanks ranks(2);
  train(ranks, 1.9);
  ranks.call(0, 180, 1.95, kStillOpen, "sum");
  ranks.call(1, 180, 1.95, kStillOpen, "max");
  EXPECT_EQ(ranks.analysis().missed.value().fault, MismatchFault::reduction);
  EXPECT_EQ(ranks.judged(collectives_match()).verdict, Verdict::violated);
}

}  // namespace
}  // namespace lockstep
