// Verdicts depend on causes. Messages of ranks, launchers and Lockstep are only for people.

#include <gmock/gmock.h>

#include <memory>
#include <tuple>
#include <vector>

#include "harness/judge/collectives/analyse_collectives.h"
#include "harness/verdict/not_run.h"
#include "harness/verdict/symptom.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

/// A rank that trained and then ended in this way.
RankExit end_by(int rank, ExitKind ending, ExitCause cause, int order) {
  RankExit end = exit_of(rank, ending, order);
  end.cause = cause;
  end.rendezvous = RendezvousState::met;
  return end;
}

/// A rank that reached a collective of the world, and the state of that call.
Collective call_of(std::int64_t step, std::uint64_t number) {
  Collective call;
  call.operation = "allreduce";
  call.reduction = "sum";
  call.dtype = "float32";
  call.shape = "[4]";
  call.tensors = 1;
  call.elements = 4;
  call.group = "world";
  call.group_size = 3;
  call.step = step;
  call.number = number;
  return call;
}

/// Three ranks: rank 0 waits in the second collective, rank 2 is in no call.
class ThreeRanks {
 public:
  ThreeRanks() {
    for (int rank = 0; rank < 3; ++rank) {
      CollectiveLog log(collective_log_file(files_.folder(), rank), rank);
      log.leave(log.enter(call_of(1, 1)), CollectiveState::completed);
      if (rank < 2) log.enter(call_of(2, 2));
    }
  }

  const StepReader& evidence() {
    if (!evidence_) evidence_ = std::make_unique<StepReader>(files_.write());
    return *evidence_;
  }

 private:
  LiteralEvidence files_{3};
  std::unique_ptr<StepReader> evidence_;
};

/// The decisions about a cell, without their sentences.
auto decided(const StepReader& evidence, const std::vector<RankExit>& exits) {
  CellEvidence cell;
  cell.world_size = 3;
  cell.steps = 3;
  cell.claims = {ranks_finish(), collectives_match()};
  cell.evidence = &evidence;
  cell.exits = exits;
  std::vector<std::tuple<Verdict, std::int64_t, std::vector<int>>> verdicts;
  const Judgement judged = judge(cell, facts_of(cell));
  for (const ClaimResult& result : judged.results) {
    verdicts.emplace_back(result.verdict, 0, std::vector<int>{});
    for (const Finding& finding : result.findings) {
      const int rank = finding.failure ? finding.failure->rank : -1;
      verdicts.emplace_back(result.verdict, finding.step, std::vector<int>{rank});
    }
  }
  const CollectiveAnalysis analysis = analyse_collectives(cell);
  for (const CollectiveMismatch& missed : analysis.blocking) {
    verdicts.emplace_back(Verdict::violated, static_cast<std::int64_t>(missed.fault),
                          missed.culprits);
  }
  const auto not_run = why_not_run(exits);
  return std::tuple(verdicts, symptom_of(facts_of(cell), judged.results, judged.wrong_values).kind,
                    not_run ? static_cast<int>(not_run->cause) : -1);
}

std::vector<RankExit> reworded(std::vector<RankExit> exits, const std::string& words) {
  for (RankExit& end : exits) {
    end.detail = words;
    end.error = words;
    end.last_output = words;
  }
  return exits;
}

/// Sentences that sound like causes.
const std::vector<std::string> kSentences{"",
                                          "something else",
                                          "stopped by SIGSTOP",
                                          "limit of 2 s",
                                          "ended 5 s after rank 1 failed",
                                          "its launcher left no word of it",
                                          "Connection closed by peer [127.0.0.1]:1"};

TEST(RewordedExits, AreJudgedAlike) {
  using enum ExitCause;
  ThreeRanks ranks;
  const std::vector<std::pair<ExitKind, ExitCause>> ways{
      {ExitKind::finished, none},          {ExitKind::raised, none},
      {ExitKind::raised, lost_peer},       {ExitKind::exited, none},
      {ExitKind::signalled, none},         {ExitKind::unfinished, none},
      {ExitKind::unfinished, stopped},     {ExitKind::unfinished, time_limit},
      {ExitKind::unfinished, peer_failed}, {ExitKind::unfinished, unseen},
      {ExitKind::unstarted, none}};
  for (const auto& [first, first_cause] : ways) {
    for (const auto& [last, last_cause] : ways) {
      const std::vector<RankExit> exits{end_by(0, first, first_cause, 1),
                                        end_by(1, ExitKind::unfinished, time_limit, 2),
                                        end_by(2, last, last_cause, 0)};
      const auto expected = decided(ranks.evidence(), reworded(exits, "as it was"));
      for (const std::string& words : kSentences) {
        EXPECT_EQ(decided(ranks.evidence(), reworded(exits, words)), expected)
            << name(first) << " " << name(first_cause) << ", " << name(last) << " "
            << name(last_cause) << ": " << words;
      }
    }
  }
}

TEST(RewordedExits, AreToldApartByTheirCauses) {
  using enum ExitCause;
  ThreeRanks ranks;
  const auto with = [&](ExitKind ending, ExitCause cause) {
    return decided(ranks.evidence(),
                   {end_by(0, ExitKind::unfinished, time_limit, 1),
                    end_by(1, ExitKind::unfinished, time_limit, 2), end_by(2, ending, cause, 0)});
  };
  EXPECT_NE(with(ExitKind::unfinished, stopped), with(ExitKind::unfinished, time_limit));
  EXPECT_NE(with(ExitKind::unfinished, unseen), with(ExitKind::unfinished, time_limit));
  // If a log shows the call of a rank, that counts, too.
  const StepReader without_logs = LiteralEvidence(3).write();
  const auto beside_dead = [&](ExitCause cause) {
    return decided(without_logs,
                   {end_by(0, ExitKind::finished, none, 2), end_by(1, ExitKind::signalled, none, 0),
                    end_by(2, ExitKind::raised, cause, 1)});
  };
  EXPECT_NE(beside_dead(lost_peer), beside_dead(none));
}

}  // namespace
}  // namespace lockstep
