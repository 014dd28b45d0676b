#include "harness/judge/collectives/analyse_collectives.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/judge.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr CollectiveState kOpen = CollectiveState::entered;
constexpr CollectiveState kFailed = CollectiveState::failed;

/// Writes the collective logs of a cell by hand.
class Logs {
 public:
  explicit Logs(int world) : files_(world), logs_(static_cast<std::size_t>(world)) {
    for (int rank = 0; rank < world; ++rank) join(rank, "world", world);
  }

  void join(int rank, const std::string& group, int size,
            CollectiveState state = CollectiveState::completed) {
    Collective call;
    call.operation = kJoin;
    call.group = group;
    call.group_size = size;
    enter(rank, call, state);
  }

  /// A point-to-point call, which has no number.
  void receive(int rank, int from) {
    Collective call;
    call.operation = "recv";
    call.dtype = "float32";
    call.shape = "[4]";
    call.root = from;
    call.group = "world";
    enter(rank, call, CollectiveState::entered);
  }

  void forget(int rank) { logs_[static_cast<std::size_t>(rank)].clear(); }

  void all(const Collective& call) {
    for (std::size_t rank = 0; rank < logs_.size(); ++rank) add(static_cast<int>(rank), call);
  }

  void add(int rank, Collective call, CollectiveState state = CollectiveState::completed) {
    std::uint64_t number = 1;
    for (const auto& [other, ignored] : logs_[static_cast<std::size_t>(rank)]) {
      if (other.group == call.group && other.number > 0) ++number;
    }
    call.number = number;
    enter(rank, call, state);
  }

  void add_as(int rank, Collective call, std::uint64_t number) {
    call.number = number;
    enter(rank, call, CollectiveState::completed);
  }

  LiteralEvidence& files() { return files_; }

  void be_of_job() { is_job_ = true; }

  /// Judges; `ends` is optional.
  CollectiveAnalysis analysis(std::vector<RankExit> exits = {}) {
    return analyse_collectives(judged_cell(std::move(exits)));
  }

  ClaimResult judged(const Claim& claim, std::vector<RankExit> exits = {}) {
    CellEvidence cell = judged_cell(std::move(exits));
    cell.claims = {claim};
    return judge(cell).front();
  }

 private:
  void enter(int rank, Collective call, CollectiveState state) {
    logs_[static_cast<std::size_t>(rank)].emplace_back(std::move(call), state);
  }

  CellEvidence judged_cell(std::vector<RankExit> exits) {
    if (!evidence_) write();
    CellEvidence cell;
    cell.world_size = static_cast<int>(logs_.size());
    cell.evidence = evidence_.get();
    cell.exits = std::move(exits);
    cell.is_job = is_job_;
    return cell;
  }

  void write() {
    for (std::size_t rank = 0; rank < logs_.size(); ++rank) {
      if (logs_[rank].empty()) continue;
      CollectiveLog log(collective_log_file(files_.folder(), static_cast<int>(rank)),
                        static_cast<int>(rank));
      for (const auto& [call, state] : logs_[rank]) {
        const std::uint64_t seq = log.enter(call);
        if (state != kOpen) log.leave(seq, state);
      }
    }
    evidence_ = std::make_unique<StepReader>(files_.write());
  }

  LiteralEvidence files_;
  std::vector<std::vector<std::pair<Collective, CollectiveState>>> logs_;
  std::unique_ptr<StepReader> evidence_;
  bool is_job_ = false;
};

/// An all-reduce of a gradient; without a name, of an unknown tensor.
Collective reduce(const std::string& name, std::int64_t step = 1, std::uint64_t elements = 4) {
  Collective call;
  call.operation = "allreduce";
  call.reduction = "sum";
  call.dtype = "float32";
  call.shape = "[" + std::to_string(elements) + "]";
  call.tensors = 1;
  call.elements = elements;
  call.group = "world";
  call.group_size = 2;
  call.step = step;
  call.site = "sync.cc:10";
  if (name.empty()) return call;
  call.tensor = "gradient of " + name;
  call.tensor_id = static_cast<std::int32_t>(name[0]);
  return call;
}

Collective broadcast(std::uint64_t elements = 4) {
  Collective call = reduce("", 1, elements);
  call.operation = "broadcast";
  call.reduction = "";
  call.root = 0;
  call.site = "sync.cc:20";
  return call;
}

Collective in_group(Collective call, const std::string& group) {
  call.group = group;
  return call;
}

Collective at(Collective call, const std::string& site) {
  call.site = site;
  return call;
}

RankExit late(int rank, int order = 0) {
  RankExit end = exit_of(rank, ExitKind::unfinished, order);
  end.detail = "limit of 2 s";
  end.cause = ExitCause::time_limit;
  return end;
}

RankExit killed(int rank, int signal = SIGKILL) {
  RankExit end = exit_of(rank, ExitKind::signalled, 0);
  end.code = signal;
  end.detail = signal == SIGKILL ? "SIGKILL" : "SIGABRT";
  return end;
}

RankExit finished(int rank) { return exit_of(rank, ExitKind::finished, 0); }

TEST(CollectiveAnalysis, AreMissedByNobodyWhoCallsTheSame) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.all(broadcast());
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 2);
}

TEST(CollectiveAnalysis, SayNothingWithoutALog) {
  Logs logs(2);
  logs.forget(0);
  logs.forget(1);
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, "not triggered: no collective was recorded");
}

TEST(CollectiveAnalysis, NameTheRankThatCallsAnotherOperation) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(0, reduce("b"), kOpen);
  logs.add(1, broadcast(), kOpen);
  logs.add(2, reduce("b"), kOpen);
  const CollectiveMismatch missed = logs.analysis({late(0), late(1), late(2)}).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::operation);
  EXPECT_EQ(missed.number, 2);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  EXPECT_THAT(missed.waiting, ElementsAre(0, 2));
  EXPECT_EQ(
      missed.sentence,
      "rank 1 disagrees with the others on the operation of collective 2 of the group world in "
      "step 1: ranks 0,2 call allreduce sum float32 [4], gradient of b at sync.cc:10; rank 1 calls "
      "broadcast float32 [4], root 0 at sync.cc:20.");
}

TEST(CollectiveAnalysis, TellSizeDtypeReductionAndRootApart) {
  const auto fault_of = [](Collective call, Collective other) {
    Logs logs(2);
    logs.add(0, call, kOpen);
    logs.add(1, other, kOpen);
    return logs.analysis().missed.value().fault;
  };
  EXPECT_EQ(fault_of(reduce("a"), reduce("a", 1, 5)), MismatchFault::size);
  Collective other = reduce("a");
  other.dtype = "float64";
  EXPECT_EQ(fault_of(reduce("a"), other), MismatchFault::dtype);
  other = reduce("a");
  other.reduction = "max";
  EXPECT_EQ(fault_of(reduce("a"), other), MismatchFault::reduction);
  other = broadcast();
  other.root = 1;
  EXPECT_EQ(fault_of(broadcast(), other), MismatchFault::root);
}

TEST(CollectiveAnalysis, SeeEqualShapesInAnotherOrder) {
  Logs logs(2);
  logs.all(reduce("c"));
  logs.add(0, reduce("a"));
  logs.add(0, reduce("b"));
  logs.add(1, reduce("b"));
  logs.add(1, reduce("a"));
  const CollectiveMismatch missed = logs.analysis({finished(0), finished(1)}).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::order);
  EXPECT_EQ(missed.number, 2);
  const ClaimResult result = logs.judged(collectives_match(), {finished(0), finished(1)});
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).kind, FindingKind::collectives_out_of_order);
  EXPECT_EQ(logs.judged(ranks_finish(), {finished(0), finished(1)}).verdict, Verdict::holds);
}

TEST(CollectiveAnalysis, SeeOtherShapesInAnotherOrder) {
  Logs logs(2);
  logs.add(0, reduce("a"), kOpen);
  logs.add(0, reduce("b", 1, 6), kOpen);
  logs.add(1, reduce("b", 1, 6), kOpen);
  logs.add(1, reduce("a"), kOpen);
  EXPECT_EQ(logs.analysis().missed.value().fault, MismatchFault::order);
}

TEST(CollectiveAnalysis, TakeNoOrderForSwappedThatIsOfAnotherStep) {
  Logs logs(2);
  logs.add(0, reduce("a", 1));
  logs.add(0, reduce("b", 2));
  logs.add(1, reduce("b", 1));
  logs.add(1, reduce("a", 2));
  EXPECT_EQ(logs.analysis().missed.value().fault, MismatchFault::tensors);
}

TEST(CollectiveAnalysis, SeeDifferentTensorsThatAllRanksHave) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) {
    logs.files().add(rank, 1, "a", {1});
    logs.files().add(rank, 1, "b", {1});
  }
  logs.add(0, reduce("a"));
  logs.add(1, reduce("b"));
  EXPECT_EQ(logs.analysis().missed.value().fault, MismatchFault::tensors);
}

TEST(CollectiveAnalysis, LeaveTiedParametersOfOtherNamesAlone) {
  Logs logs(2);
  logs.add(0, reduce("embedding"));
  logs.add(1, reduce("head"));
  EXPECT_FALSE(logs.analysis().missed);
}

TEST(CollectiveAnalysis, LeaveZerosInsteadOfAGradientAlone) {
  Logs logs(2);
  logs.add(0, reduce("a"));
  logs.add(0, at(reduce(""), "sync.cc:12"));
  logs.add(1, at(reduce(""), "sync.cc:12"));
  logs.add(1, reduce("b"));
  const CollectiveAnalysis analysis = logs.analysis();
  EXPECT_FALSE(analysis.missed);
  EXPECT_EQ(analysis.doubt, "");
}

TEST(CollectiveAnalysis, AreInDoubtWhereUnnamedTensorsComeFromSwappedPlaces) {
  Logs logs(2);
  logs.add(0, at(reduce(""), "sync.cc:12"));
  logs.add(0, at(reduce(""), "sync.cc:14"));
  logs.add(1, at(reduce(""), "sync.cc:14"));
  logs.add(1, at(reduce(""), "sync.cc:12"));
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("at swapped lines of code"));
}

TEST(CollectiveAnalysis, TakeAnyOrderBetweenGroups) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) {
    logs.join(rank, "left", 2);
    logs.join(rank, "right", 2);
  }
  logs.add(0, in_group(reduce("a"), "left"));
  logs.add(0, in_group(broadcast(), "right"));
  logs.add(1, in_group(broadcast(), "right"));
  logs.add(1, in_group(reduce("a"), "left"));
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::holds) << result.reason;
  EXPECT_EQ(result.comparisons, 2);
}

TEST(CollectiveAnalysis, DoNotMissRanksOutsideOfAGroup) {
  Logs logs(3);
  logs.join(0, "part", 2);
  logs.join(2, "part", 2);
  logs.add(0, in_group(reduce("a"), "part"));
  logs.add(2, in_group(reduce("a"), "part"));
  EXPECT_FALSE(logs.analysis().missed);
}

TEST(CollectiveAnalysis, NameTheRankThatNeverCame) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(0, reduce("b", 2), kOpen);
  logs.add(2, reduce("b", 2), kOpen);
  const std::vector<RankExit> exits{late(0), late(1), late(2)};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::missing);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  EXPECT_EQ(missed.sentence,
            "rank 1 never entered collective 2 of the group world in step 2, allreduce sum float32 "
            "[4], gradient of b at sync.cc:10, in which ranks 0,2 wait; the last call of rank 1 "
            "there was collective 1, allreduce sum float32 [4], gradient of a at sync.cc:10, which "
            "completed.");
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U) << "those who wait are no culprits";
  EXPECT_THAT(finish.findings[0].groups, ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::violated);
}

TEST(CollectiveAnalysis, NameTheRankThatFinishedEarly) {
  Logs logs(2);
  logs.all(reduce("a"));
  logs.add(0, reduce("a", 2), kOpen);
  const CollectiveMismatch missed = logs.analysis({late(0), finished(1)}).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::count);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  EXPECT_THAT(missed.sentence, HasSubstr("rank 1 finished without collective 2"));
}

TEST(CollectiveAnalysis, NameTheDeadAndNotThoseWhoWaitForThem) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(0, reduce("b", 2), kFailed);
  logs.add(2, reduce("b", 2), kFailed);
  const std::string lost = "Connection closed by peer";
  const std::vector<RankExit> exits{exit_of(0, ExitKind::raised, 1, lost), killed(1),
                                    exit_of(2, ExitKind::raised, 2, lost)};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::dead);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence,
              AllOf(HasSubstr("rank 1 was killed by signal 9 (SIGKILL) in step 2. Ranks 0,2 wait "
                              "for rank 1 in collective 2 of the group world in step 2")));
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided)
      << "up to there they matched";
}

TEST(CollectiveAnalysis, NameARankThatDiedInside) {
  Logs logs(2);
  logs.add(0, reduce("a"), kFailed);
  logs.add(1, reduce("a"), kOpen);
  const CollectiveMismatch missed =
      logs.analysis({exit_of(0, ExitKind::raised, 1, "Connection closed by peer"), killed(1)})
          .missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::dead);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  EXPECT_THAT(missed.sentence, HasSubstr("rank 1 was in collective 1"));
}

TEST(CollectiveAnalysis, NameTheStopped) {
  Logs logs(2);
  logs.add(0, reduce("a"), kOpen);
  RankExit stopped = exit_of(1, ExitKind::unfinished, 1);
  stopped.detail = "stopped by SIGSTOP";
  stopped.cause = ExitCause::stopped;
  const CollectiveMismatch missed = logs.analysis({late(0), stopped}).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::stopped);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
}

TEST(CollectiveAnalysis, NameARankThatNeverStarted) {
  Logs logs(3);
  for (int rank = 0; rank < 3; ++rank) logs.forget(rank);
  logs.join(0, "world", 3, kOpen);
  logs.join(2, "world", 3, kOpen);
  const CollectiveMismatch missed = logs.analysis({late(0), late(1), late(2)}).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::not_started);
  EXPECT_EQ(missed.number, 0);
  EXPECT_THAT(missed.culprits, ElementsAre(1));
  EXPECT_EQ(missed.sentence, "rank 1 never joined the group world; ranks 0,2 waited there.");
}

TEST(CollectiveAnalysis, DoNotCallARankAbsentWhoseLogIsLost) {
  Logs logs(3);
  logs.forget(1);
  logs.add(0, reduce("a"));
  logs.add(2, reduce("a"));
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("logs of 1 ranks of the group world are missing"));
}

TEST(CollectiveAnalysis, SayThatAllCameAndNoneHadMetTheOthers) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) {
    logs.forget(rank);
    logs.join(rank, "world", 2, kOpen);
  }
  const ClaimResult result = logs.judged(collectives_match(), {late(0), late(1)});
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("were ended before it was complete"));
  const ClaimResult exits = logs.judged(ranks_finish(), {late(0), late(1)});
  ASSERT_EQ(exits.findings.size(), 1U);
  EXPECT_THAT(
      exits.findings[0].sentence,
      AllOf(HasSubstr("All 2 ranks called to join the group world"), HasSubstr("did not finish")));
}

TEST(CollectiveAnalysis, BlameTheRankThatDiedWhileAllWereJoining) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) {
    logs.forget(rank);
    logs.join(rank, "world", 2, kOpen);
  }
  const ClaimResult exits = logs.judged(ranks_finish(), {late(0, 1), killed(1)});
  ASSERT_EQ(exits.findings.size(), 1U);
  EXPECT_EQ(exits.findings[0].failure.value().rank, 1);
}

// The logs are written one after another, as by the clocks of machines that booted in this order.
TEST(CollectiveAnalysis, TellTheFirstByTheClockOfARankThatCameToBoth) {
  Logs logs(3);
  for (const int rank : {1, 2}) logs.join(rank, "one", 2);
  for (const int rank : {0, 1}) logs.join(rank, "two", 2);
  logs.add(1, in_group(reduce("a"), "one"));
  logs.add(2, in_group(broadcast(), "one"));
  logs.add(0, in_group(reduce("b"), "two"));
  logs.add(1, in_group(broadcast(), "two"));
  EXPECT_EQ(logs.analysis().missed.value().group, "one");
}

TEST(CollectiveAnalysis, TellOfAPartOfTheWorldThatDidNotComeTogether) {
  Logs logs(4);
  logs.join(0, "part", 3, kOpen);
  logs.join(1, "part", 3, kOpen);
  const std::vector<RankExit> exits{late(0), late(1), finished(2), finished(3)};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::not_started);
  EXPECT_EQ(missed.sentence, "only 2 of 3 ranks joined the group part: ranks 0,1.");
  EXPECT_EQ(logs.judged(ranks_finish(), exits).findings.size(), 1U);
}

TEST(CollectiveAnalysis, BlameNobodyWhoWaitsToJoinAnotherGroup) {
  Logs logs(3);
  logs.join(1, "part", 2, kOpen);
  logs.add(0, reduce("a"), kOpen);
  logs.add(2, reduce("a"), kOpen);
  EXPECT_EQ(logs.analysis({late(0), late(1), late(2)}).missed.value().group, "part");
}

TEST(CollectiveAnalysis, SayThatAnAbsentRankWaitsForAMessage) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(0, reduce("b"), kOpen);
  logs.add(2, reduce("b"), kOpen);
  logs.receive(1, 2);
  EXPECT_THAT(logs.analysis({late(0), late(1), late(2)}).missed.value().sentence,
              HasSubstr("rank 1 is in recv float32 [4], root 2"));
}

TEST(CollectiveAnalysis, LetRanksGatherDifferentTensors) {
  Collective gather = reduce("a");
  gather.operation = "allgather_base";
  gather.reduction = "";
  Collective other = gather;
  other.tensor = "b";
  other.tensor_id = 'b';
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* name : {"a", "b"}) logs.files().add(rank, 1, name, {1}, {Kind::parameter});
  }
  logs.add(0, gather);
  logs.add(1, other);
  EXPECT_EQ(logs.judged(collectives_match()).verdict, Verdict::holds);
}

TEST(CollectiveAnalysis, LetRanksSendEachOtherAnyNumberOfElements) {
  Collective send = reduce("", 1, 6);
  send.operation = "alltoall_base";
  Collective more = send;
  more.elements = 10;
  Logs logs(2);
  logs.add(0, send);
  logs.add(1, more);
  EXPECT_EQ(logs.judged(collectives_match()).verdict, Verdict::holds);
}

TEST(CollectiveAnalysis, NameWhoHangsLongAfterASilentMismatch) {
  Logs logs(3);
  logs.add(0, reduce("a"));
  logs.add(0, reduce("b"));
  for (int rank = 1; rank < 3; ++rank) {
    logs.add(rank, reduce("b"));
    logs.add(rank, reduce("a"));
  }
  for (int step = 2; step < 5; ++step) logs.all(reduce("a", step));
  logs.add(0, reduce("a", 5), kOpen);
  logs.add(2, reduce("a", 5), kOpen);
  const std::vector<RankExit> exits{late(0), late(1), late(2)};
  const CollectiveAnalysis analysis = logs.analysis(exits);
  EXPECT_EQ(analysis.missed.value().fault, MismatchFault::order);
  ASSERT_EQ(analysis.blocking.size(), 1U);
  EXPECT_EQ(analysis.blocking[0].fault, MismatchFault::missing);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence, HasSubstr("Rank 1 never entered collective 6"));
}

constexpr const char* kLost = "Connection closed by peer [127.0.0.1]:4242";

RankExit raised(int rank, const std::string& error) {
  return exit_of(rank, ExitKind::raised, 1, error);
}

/// Ranks 0,1 and 2,3 are groups called tp; 0,2 and 1,3 are groups called dp.
void join_tensor_and_data_parallel(Logs& logs) {
  for (int rank = 0; rank < 4; ++rank) {
    logs.join(rank, rank < 2 ? "tp0" : "tp1", 2);
    logs.join(rank, rank % 2 == 0 ? "dp0" : "dp1", 2);
  }
}

TEST(CollectiveAnalysis, TellWhatDoesNotMatchBeforeWhoWaitedForThatEarlier) {
  Logs logs(4);
  join_tensor_and_data_parallel(logs);
  for (int rank = 0; rank < 2; ++rank) {
    logs.add(rank, in_group(reduce("a"), rank == 0 ? "dp0" : "dp1"), kOpen);
  }
  logs.add(2, in_group(reduce("b"), "tp1"), kFailed);
  logs.add(3, in_group(reduce("b", 1, 8), "tp1"), kOpen);
  const std::vector<RankExit> exits{late(0, 2), late(1, 3),
                                    raised(2, "ranks call collectives that do not match"), late(3)};
  EXPECT_EQ(logs.analysis(exits).missed.value().group, "tp1");
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::violated);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence, HasSubstr("group tp1"));
}

TEST(CollectiveAnalysis, BlameNobodyWhoLostAPeerInAnotherGroup) {
  Logs logs(4);
  join_tensor_and_data_parallel(logs);
  logs.add(0, in_group(reduce("a"), "dp0"), kOpen);
  logs.add(1, in_group(reduce("a"), "dp1"), kOpen);
  logs.add(2, in_group(reduce("b"), "tp1"), kFailed);
  const std::vector<RankExit> exits{late(0, 2), late(1, 3), raised(2, kLost), killed(3)};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::dead);
  EXPECT_THAT(missed.culprits, ElementsAre(3));
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 3);
}

TEST(CollectiveAnalysis, DoNotTakeARanksOwnLostConnectionForThatOfAPeer) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(0, reduce("b"), kFailed);
  logs.add(2, reduce("b"), kOpen);
  const std::vector<RankExit> exits{
      raised(0, kLost), exit_of(1, ExitKind::raised, 0, "shard 7: Connection reset by peer"),
      late(2, 2)};
  EXPECT_EQ(logs.analysis(exits).missed.value().fault, MismatchFault::dead);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence,
              HasSubstr("rank 1 raised an error in step 2: shard 7: "));
}

TEST(CollectiveAnalysis, ThatAreNotRecordedLeaveALostPeerAConsequence) {
  Logs logs(2);
  logs.forget(0);
  logs.forget(1);
  CollectiveLog(collective_log_file(logs.files().folder(), 1), 1);  // as with --collectives off
  const ClaimResult finish =
      logs.judged(ranks_finish(), {killed(0), raised(1, "Connection closed by peer")});
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 0);
}

TEST(CollectiveAnalysis, DoNotExplainWhatComesAfterAllCameOutOfThem) {
  Logs logs(3);
  Collective other = reduce("a");
  other.reduction = "max";
  for (int rank = 0; rank < 3; ++rank) logs.add(rank, rank == 1 ? other : reduce("a"));
  const std::vector<RankExit> exits{late(0, 2), finished(1), finished(2)};
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::violated);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence,
              AllOf(HasSubstr("rank 0 did not finish"), Not(HasSubstr("reduction"))));
}

TEST(CollectiveAnalysis, TellOfTwoHangsThatHaveNothingInCommon) {
  Logs logs(4);
  for (int rank = 0; rank < 4; ++rank) logs.join(rank, rank < 2 ? "tp0" : "tp1", 2);
  logs.add(0, in_group(reduce("a", 3), "tp0"), kOpen);
  logs.add(3, in_group(reduce("a", 2), "tp1"), kOpen);
  const std::vector<RankExit> exits{late(0), late(1), late(2), late(3)};
  EXPECT_EQ(logs.analysis(exits).missed.value().group, "tp1") << "the earlier step";
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 2U);
  EXPECT_THAT(finish.findings[0].sentence,
              AllOf(HasSubstr("group tp1"), HasSubstr("Rank 2 did not finish")));
  EXPECT_THAT(finish.findings[1].sentence,
              AllOf(HasSubstr("group tp0"), HasSubstr("Rank 0 did not finish")));
}

TEST(CollectiveAnalysis, LetABroadcastGoIntoAnotherTensor) {
  Logs logs(3);
  for (const char* name : {"a", "b"}) logs.all(reduce(name));
  for (int rank = 0; rank < 3; ++rank) {
    Collective call = broadcast();
    call.tensor = reduce(rank == 0 ? "a" : "b").tensor;
    call.tensor_id = reduce(rank == 0 ? "a" : "b").tensor_id;
    logs.add(rank, call);
  }
  EXPECT_EQ(logs.judged(collectives_match()).verdict, Verdict::holds);
}

TEST(CollectiveAnalysis, DoNotBlameWhoWaitsToJoinAPartForARankThatDied) {
  Logs logs(3);
  logs.join(0, "part", 2, kOpen);
  const std::vector<RankExit> exits{late(0, 1), killed(1), finished(2)};
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 1);
}

TEST(CollectiveAnalysis, NameTheCoarsestOfSeveralFaults) {
  Logs logs(4);
  logs.add(0, reduce("a"), kOpen);
  logs.add(1, reduce("a"), kOpen);
  logs.add(2, reduce("a", 1, 2), kOpen);
  logs.add(3, broadcast(), kOpen);
  const CollectiveMismatch missed = logs.analysis().missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::operation);
  EXPECT_THAT(missed.culprits, ElementsAre(2, 3));
}

/// Ended by Lockstep some time after rank `failed` had failed.
RankExit cut_off(int rank, int failed) {
  RankExit end = late(rank, 2);
  end.detail = "ended 5 s after rank " + std::to_string(failed) + " failed";
  end.cause = ExitCause::peer_failed;
  return end;
}

TEST(CollectiveAnalysis, BlameNobodyWhoWasBusyWhenAnotherFailed) {
  Logs logs(4);
  join_tensor_and_data_parallel(logs);
  logs.add(0, in_group(reduce("a"), "tp0"), kOpen);
  logs.add(2, in_group(reduce("a"), "tp1"), kOpen);
  const std::vector<RankExit> exits{cut_off(0, 3), cut_off(1, 3), cut_off(2, 3), killed(3)};
  EXPECT_THAT(logs.analysis(exits).missed.value().culprits, ElementsAre(3));
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 3);
}

/// Lost together with its supervisor, so its exit is unknown.
RankExit lost(int rank) {
  RankExit end = late(rank, 3);
  end.detail = "its launcher reported nothing about it";
  end.cause = ExitCause::unseen;
  return end;
}

TEST(CollectiveAnalysis, NameTheRankThatIsLost) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(1, reduce("b"), kFailed);
  logs.add(2, reduce("b"), kFailed);
  const std::vector<RankExit> exits{lost(0), raised(1, "Connection closed by peer"),
                                    raised(2, "Connection closed by peer")};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.fault, MismatchFault::dead);
  EXPECT_THAT(missed.culprits, ElementsAre(0));
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 0);
}

TEST(CollectiveAnalysis, TellARanksOwnErrorInACallRatherThanWhoWasNotYetThere) {
  Logs logs(3);
  logs.add(0, reduce("a"), kFailed);
  logs.add(1, reduce("a"), kOpen);
  const std::vector<RankExit> exits{raised(0, "unsupported reduction operation"), cut_off(1, 0),
                                    cut_off(2, 0)};
  EXPECT_EQ(logs.judged(collectives_match(), exits).verdict, Verdict::undecided);
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 0);
}

TEST(CollectiveAnalysis, FollowAChainToTheRankInAPointToPointCall) {
  Logs logs(4);
  join_tensor_and_data_parallel(logs);
  logs.add(0, in_group(reduce("a"), "dp0"), kOpen);
  logs.add(2, in_group(reduce("b"), "tp1"), kOpen);
  logs.receive(3, 1);
  const std::vector<RankExit> exits{late(0), finished(1), late(2), late(3)};
  const CollectiveAnalysis analysis = logs.analysis(exits);
  EXPECT_EQ(analysis.missed.value().group, "tp1");
  EXPECT_THAT(analysis.missed.value().culprits, ElementsAre(3));
  EXPECT_EQ(analysis.blocking.size(), 1U);
  EXPECT_EQ(logs.judged(ranks_finish(), exits).findings.size(), 1U);
}

TEST(CollectiveAnalysis, NameAllRanksThatWaitForEachOther) {
  Logs logs(5);
  for (int rank = 0; rank < 4; ++rank) {
    for (const char* name : {"a", "b"}) logs.join(rank, name + std::to_string(rank / 2), 2);
  }
  for (int rank = 0; rank < 4; ++rank) {
    const std::string group = (rank % 2 == 0 ? "a" : "b") + std::to_string(rank / 2);
    logs.add(rank, in_group(reduce("w"), group), kOpen);
  }
  const std::vector<RankExit> exits{late(0), late(1), late(2), late(3), late(4)};
  const CollectiveAnalysis analysis = logs.analysis(exits);
  ASSERT_EQ(analysis.blocking.size(), 2U);
  EXPECT_THAT(analysis.blocking[0].culprits, ElementsAre(0, 1));
  EXPECT_THAT(analysis.blocking[0].waiting, IsEmpty()) << "each of them is a culprit";
  EXPECT_THAT(analysis.blocking[0].sentence, HasSubstr("ranks 0,1 wait for each other"));
  EXPECT_THAT(analysis.blocking[1].culprits, ElementsAre(2, 3));
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 3U) << "rank 4 hangs by itself";
  EXPECT_EQ(finish.findings[2].failure.value().rank, 4);
}

TEST(CollectiveAnalysis, TellALostConnectionOfItsOwnWhileACallIsUnderWay) {
  Logs logs(3);
  logs.add(1, reduce("a"), kOpen);
  for (const int rank : {0, 2}) logs.add(rank, reduce("a"), kFailed);
  const std::vector<RankExit> exits{
      raised(0, kLost), exit_of(1, ExitKind::raised, 0, "shard 7: Connection reset by peer"),
      raised(2, kLost)};
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 1);
}

TEST(CollectiveAnalysis, TellTheDeadBeforeTheBusy) {
  Logs logs(4);
  for (const int rank : {2, 3}) {
    logs.join(rank, "tp1", 2);
    logs.add(rank, in_group(reduce("a"), "tp1"), kOpen);
  }
  logs.add(0, reduce("b"), kOpen);
  const std::vector<RankExit> exits{late(0, 2), late(1, 2), late(2, 2), killed(3)};
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure.value().rank, 3);
}

TEST(CollectiveAnalysis, TellAMismatchBehindASilentOneRatherThanWhoDidNotComeToIt) {
  Logs logs(3);
  Collective other = reduce("a");
  other.reduction = "max";
  for (int rank = 0; rank < 3; ++rank) logs.add(rank, rank == 1 ? other : reduce("a"));
  logs.add(0, reduce("b", 2, 4), kOpen);
  logs.add(1, reduce("b", 2, 2), kOpen);
  const std::vector<RankExit> exits{killed(0, SIGABRT), late(1, 1), cut_off(2, 0)};
  ASSERT_EQ(logs.analysis(exits).blocking.size(), 1U);
  EXPECT_EQ(logs.analysis(exits).blocking[0].fault, MismatchFault::size);
}

TEST(CollectiveAnalysis, FollowARankThatFailedInACallBeforeItsLast) {
  Logs logs(4);
  for (int rank = 0; rank < 3; ++rank) logs.join(rank, "A", 3);
  for (int rank = 1; rank < 3; ++rank) logs.join(rank, "B", 2);
  for (const int rank : {1, 3}) logs.join(rank, "C", 2);
  for (int rank = 0; rank < 3; ++rank) {
    logs.add(rank, in_group(reduce("a", 1, rank == 0 ? 8 : 4), "A"), kFailed);
  }
  for (int rank = 1; rank < 3; ++rank) logs.add(rank, in_group(reduce("b"), "B"));
  logs.add(3, in_group(reduce("c"), "C"), kOpen);
  const std::vector<RankExit> exits{killed(0, SIGABRT), raised(1, kLost), raised(2, kLost),
                                    late(3, 3)};
  const ClaimResult finish = logs.judged(ranks_finish(), exits);
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence, HasSubstr("on the size of"));
}

TEST(CollectiveAnalysis, TellOfAllGroupsThatDidNotComeTogether) {
  Logs logs(6);
  for (const int rank : {0, 1}) logs.join(rank, "x", 3, kOpen);
  for (const int rank : {3, 4}) logs.join(rank, "y", 3, kOpen);
  const std::vector<RankExit> exits{late(0), late(1), finished(2), late(3), late(4), finished(5)};
  EXPECT_EQ(logs.judged(ranks_finish(), exits).findings.size(), 2U);
}

TEST(CollectiveAnalysis, DoNotLookForARankInACallThatItLeftBehind) {
  Logs logs(2);
  logs.add(0, reduce("a"));
  logs.add(1, reduce("a"), kOpen);  // a handle without a wait
  logs.all(reduce("b"));
  logs.add(0, reduce("c", 9), kOpen);
  const std::vector<RankExit> exits{late(0, 1), killed(1)};
  const CollectiveMismatch missed = logs.analysis(exits).missed.value();
  EXPECT_EQ(missed.number, 3);
  EXPECT_EQ(missed.step, 9);
}

TEST(CollectiveAnalysis, SurviveANumberThatNobodyHas) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) logs.add_as(rank, reduce("a"), 2);
  const ClaimResult result = logs.judged(collectives_match());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("no rank recorded collective 1 of the group world"));
}

TEST(CollectiveAnalysis, OfTwoGroupsTellTheEarlier) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) logs.join(rank, "part", 2);
  logs.add(0, reduce("a", 0));
  logs.add(0, in_group(reduce("a", 3), "part"));
  Collective other = reduce("a", 0);
  other.dtype = "float64";
  logs.add(1, other);
  logs.add(1, in_group(other, "part"));
  EXPECT_EQ(logs.analysis().missed.value().group, "world") << "before the first step";
}

TEST(CollectiveAnalysis, OfTwoGroupsTellTheEarlierAlthoughAHangComesBehindIt) {
  Logs logs(2);
  for (int rank = 0; rank < 2; ++rank) logs.join(rank, "part", 2);
  for (const char* name : {"a", "b"}) logs.add(0, reduce(name));
  for (const char* name : {"b", "a"}) logs.add(1, reduce(name));
  logs.add(0, in_group(broadcast(), "part"));
  logs.add(1, in_group(broadcast(6), "part"));
  logs.add(0, reduce("a", 2), kOpen);
  EXPECT_EQ(logs.analysis({late(0), late(1)}).missed.value().group, "world");
}

TEST(CollectiveAnalysis, GroupRanksByWhatTheyCalled) {
  Logs logs(4);
  logs.add(0, reduce("a"), kOpen);
  logs.add(1, reduce("a"), kOpen);
  logs.add(2, reduce("a", 1, 5), kOpen);
  logs.add(3, broadcast(), kOpen);
  const ClaimResult result = logs.judged(collectives_match());
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].groups,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3)));
}

TEST(CollectiveAnalysis, TakeALogThatWasNotBegunForNone) {
  Logs logs(2);
  logs.forget(1);
  std::ofstream(collective_log_file(logs.files().folder(), 1)) << std::string(98'304, '\0');
  EXPECT_EQ(logs.judged(collectives_match()).verdict, Verdict::undecided);
}

TEST(CollectiveAnalysis, DoNotTakeAnErrorOfAFileForALostPeer) {
  Logs logs(2);
  logs.add(0, reduce("a"), kOpen);
  const ClaimResult finish = logs.judged(
      ranks_finish(), {late(0, 1), exit_of(1, ExitKind::raised, 0, "Read error in data.bin")});
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_EQ(finish.findings[0].failure->error, "Read error in data.bin");
}

TEST(CollectiveAnalysis, MakeOneFindingOfAnAbortBecauseOfAMismatch) {
  Logs logs(2);
  logs.add(0, reduce("a"), kOpen);
  logs.add(1, reduce("a", 1, 6), kFailed);
  RankExit aborted = killed(0, SIGABRT);
  aborted.last_output = "op.preamble.length <= op.nbytes";
  const ClaimResult finish = logs.judged(
      ranks_finish(), {aborted, exit_of(1, ExitKind::raised, 1, "Connection closed by peer")});
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence, HasSubstr("on the size of"));
  EXPECT_EQ(finish.findings[0].failure->last_output, "op.preamble.length <= op.nbytes");
}

TEST(CollectiveAnalysis, DoNotExplainAnAbortElsewhere) {
  Logs logs(2);
  logs.all(reduce("a"));
  logs.add(0, reduce("b"), kOpen);
  const ClaimResult finish = logs.judged(ranks_finish(), {late(0, 1), killed(1, SIGABRT)});
  ASSERT_EQ(finish.findings.size(), 1U);
  EXPECT_THAT(finish.findings[0].sentence, HasSubstr("rank 1 was killed by signal 6"));
}

TEST(CollectiveAnalysis, BlameNobodyWhoWaitsInAnotherGroup) {
  // Rank 2 is in no call. Rank 1 waits for it in a subgroup, rank 0 for both in the world.
  Logs logs(3);
  logs.join(1, "part", 2);
  logs.join(2, "part", 2);
  logs.add(0, reduce("a"), kOpen);
  logs.add(1, in_group(reduce("b"), "part"), kOpen);
  const CollectiveMismatch missed = logs.analysis({late(0), late(1), late(2)}).missed.value();
  EXPECT_THAT(missed.culprits, ElementsAre(2));
}

TEST(CollectiveAnalysis, BlameTheGroupWithTheCauseNotTheOneWithTheConsequence) {
  Logs logs(3);
  logs.join(1, "part", 2);
  logs.join(2, "part", 2);
  logs.add(0, reduce("a"), kOpen);
  logs.add(2, reduce("a"), kOpen);
  logs.add(1, in_group(reduce("b"), "part"), kOpen);
  logs.add(2, in_group(broadcast(), "part"), kOpen);
  const CollectiveMismatch missed = logs.analysis({late(0), late(1), late(2)}).missed.value();
  EXPECT_EQ(missed.group, "part");
  EXPECT_EQ(missed.fault, MismatchFault::operation);
}

TEST(CollectiveAnalysis, ShowTheLastCollectivesSideBySide) {
  Logs logs(2);
  for (int i = 0; i < 9; ++i) logs.all(reduce("a"));
  logs.add(0, reduce("b", 2), kOpen);
  const std::vector<CollectiveRow> rows = logs.analysis({late(0), late(1)}).missed.value().rows;
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows.front().number, 5);
  EXPECT_FALSE(rows.front().differs);
  EXPECT_TRUE(rows.back().differs);
  EXPECT_TRUE(rows.back().calls[0].is_open);
  EXPECT_THAT(rows.back().calls[1].text, IsEmpty());
}

TEST(CollectiveAnalysis, BlameNobodyWhoWaitedForALostRankUntilTheLimit) {
  Logs logs(3);
  logs.all(reduce("a"));
  logs.add(1, reduce("b"), kOpen);
  logs.add(2, reduce("b"), kOpen);
  RankExit gone = late(0, 2);
  gone.detail = "its launcher reported nothing about it";
  gone.cause = ExitCause::unseen;
  const ClaimResult result = logs.judged(ranks_finish(), {gone, late(1, 0), late(2, 1)});
  ASSERT_EQ(result.findings.size(), 1);
  EXPECT_THAT(result.findings.front().sentence, HasSubstr("rank 0 did not finish"));
}

/// A rank of a watched job that makes no progress.
RankExit standing(int rank, ExitCause cause = ExitCause::no_progress) {
  RankExit end = exit_of(rank, ExitKind::unfinished, 0);
  end.cause = cause;
  return end;
}

/// Logs of a job whose two ranks leave its second collective in `states`.
class LogsOfSecondCall : public Logs {
 public:
  explicit LogsOfSecondCall(const std::vector<CollectiveState>& states) : Logs(2) {
    all(reduce("a"));
    for (int rank = 0; rank < 2; ++rank) {
      add(rank, broadcast(), states[static_cast<std::size_t>(rank)]);
    }
    be_of_job();
  }
};

TEST(RanksOfAJob, ThatAreAllInACallWhichNoneLeavesHang) {
  LogsOfSecondCall logs({kOpen, kOpen});
  const auto found = logs.analysis({standing(0), standing(1)});
  ASSERT_TRUE(found.missed);
  EXPECT_EQ(found.missed->fault, MismatchFault::stuck);
  EXPECT_EQ(found.missed->number, 2);
  EXPECT_THAT(found.missed->waiting, ElementsAre(0, 1));
  EXPECT_THAT(found.missed->culprits, IsEmpty());
  EXPECT_THAT(found.missed->sentence,
              AllOf(HasSubstr("ranks 0,1 are all in collective 2 of the group world in step 1, "
                              "broadcast"),
                    HasSubstr("sync.cc:20, and none leaves it")));
  const ClaimResult result = logs.judged(ranks_finish(), {standing(0), standing(1)});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].kind, FindingKind::rank_hung);
}

TEST(RanksOfAJob, DoNotHangTogetherIfOneLeftTheCallOrMayHaveEnded) {
  const auto completed = CollectiveState::completed;
  for (const CollectiveState state : {kOpen, completed}) {
    LogsOfSecondCall logs({state, completed});
    EXPECT_FALSE(logs.analysis({standing(0), standing(1)}).missed);
  }
  for (const ExitCause cause : {ExitCause::interrupted, ExitCause::elsewhere}) {
    LogsOfSecondCall logs({kOpen, kOpen});
    EXPECT_FALSE(logs.analysis({standing(0), standing(1, cause)}).missed);
  }
}

}  // namespace
}  // namespace lockstep
