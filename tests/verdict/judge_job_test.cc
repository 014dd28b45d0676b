// Watched jobs, with unknown steps, unknown observed steps and an unknown end.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/record/collective_log.h"
#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/formats/job_report.h"
#include "reports/formats/renderer.h"
#include "reports/record/result.h"
#include "tests/command.h"
#include "tests/judge/literal_evidence.h"
#include "tests/refusal.h"
#include "tests/reworded.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const LiteralEvidence::Tensor kParameter{Kind::parameter, Phase::post_step, 0};

/// A job whose ranks observe a gradient and then a parameter in a step.
class Job {
 public:
  explicit Job(int ranks) : files_(ranks), run_(literal_run_of_job(files_, ranks)) {}

  JobRecord& record() { return run_.jobs[0]; }
  LiteralEvidence& files() { return files_; }
  fs::path file(const std::string& name) const { return files_.folder() / name; }

  void observe_gradient(int rank, std::int64_t step, float value = 1) {
    files_.add(rank, step, "w", {value, static_cast<float>(step)});
  }
  void observe_parameter(int rank, std::int64_t step, float value = 1) {
    files_.add(rank, step, "w", {value, static_cast<float>(step)}, kParameter);
  }

  void observe_all(const std::vector<std::int64_t>& steps) {
    for (const std::int64_t step : steps) {
      for (int rank = 0; rank < record().world_size; ++rank) {
        observe_gradient(rank, step);
        observe_parameter(rank, step);
      }
    }
  }

  void kill(int rank) {
    record().exits[static_cast<std::size_t>(rank)].kind = ExitKind::signalled;
    record().exits[static_cast<std::size_t>(rank)].code = 9;
  }

  /// Like an owner who ends the job early.
  void interrupt(std::int64_t step) {
    for (RankExit& end : record().exits) {
      end.kind = ExitKind::unfinished;
      end.cause = ExitCause::interrupted;
      end.step = step;
    }
  }

  /// Call once.
  void write() {
    files_.write_as([&](int rank) { return process_identity(record(), rank); });
    record().manifest =
        write_manifest(files_.folder(), record().processes, execution_identity(record()));
  }

  /// Without the rows of most steps on some ranks, as `lockstep watch` leaves long jobs. After
  /// `write`.
  void thin(const std::set<int>& ranks, const KeepsStep& keeps) {
    for (const int rank : ranks) thin_journal(journal_file(files_.folder(), rank), keeps);
    record().manifest =
        write_manifest(files_.folder(), record().processes, execution_identity(record()));
  }

  JobRecord judged(IndexUse use = IndexUse::believed) const {
    RunRecord run = run_;
    judge_run(run, files_.folder().parent_path(), {use});
    RunRecord other = reworded(run_);
    judge_run(other, files_.folder().parent_path(), {use});
    EXPECT_EQ(verdicts_in(other.jobs[0]), verdicts_in(run.jobs[0])) << "once it is reworded";
    EXPECT_EQ(verdicts_in(reworded(run.jobs[0])), verdicts_in(run.jobs[0]));
    return run.jobs[0];
  }

 private:
  static std::string verdicts_in(const JobRecord& job) {
    RunRecord run;
    run.jobs = {job};
    std::string text = fmt::format("{} {}:", name(verdict_of(job)), name(job.symptom.kind));
    for (const ClaimResult& result : job.results) {
      text += fmt::format(" {}", name(result.verdict));
      for (const Finding& finding : result.findings) text += fmt::format(" {}", name(finding.kind));
    }
    return text + render_keys(run);
  }

  LiteralEvidence files_;
  RunRecord run_;
};

std::vector<std::int64_t> every(std::int64_t stride, std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = stride; step <= last; step += stride) steps.push_back(step);
  return steps;
}

TEST(JudgedJob, IsInLockstepThoughItsStepsAreSparseAndNobodyKnowsHowMany) {
  Job job(2);
  job.observe_all({10, 20, 30, 40, 570});
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(verdict_of(judged), Verdict::holds);
  EXPECT_EQ(status_of(judged), ExitStatus::as_expected);
  EXPECT_EQ(judged.steps, (ObservedSteps{5, 10, 570}));
  EXPECT_EQ(judged.symptom.kind, SymptomKind::right);
  EXPECT_TRUE(judged.faults.empty()) << judged.faults[0];
}

/// Steps 1 to `steps` of a job whose ranks differ from step `apart` on.
void observe_until(std::int64_t steps, std::int64_t apart, Job& job) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto value = static_cast<float>(step < apart ? 1 : 1 + rank);
      job.observe_gradient(rank, step, value);
      job.observe_parameter(rank, step, value);
      job.files().lose_values(rank, step);
    }
  }
}

bool is_one_of_a_hundred(std::int64_t step) { return step % 100 == 1; }

TEST(JudgedJob, IsInLockstepByTheIndexWhereRowsWereRemoved) {
  Job job(2);
  observe_until(300, 301, job);
  for (RankExit& end : job.record().exits) end.rows = 600;
  job.write();
  const JobRecord whole = job.judged();
  for (const std::set<int>& ranks : {std::set{0, 1}, std::set{1}}) {
    job.thin(ranks, is_one_of_a_hundred);
    for (const IndexUse use : {IndexUse::believed, IndexUse::checked}) {
      const JobRecord judged = job.judged(use);
      EXPECT_EQ(verdict_of(judged), Verdict::holds);
      EXPECT_EQ(judged.steps, (ObservedSteps{300, 1, 201, 297}));
      EXPECT_TRUE(judged.faults.empty()) << judged.faults[0];
      EXPECT_EQ(judged.notes, whole.notes);
    }
    const JobRecord by_rows = job.judged(IndexUse::ignored);
    EXPECT_EQ(by_rows.steps.thinned, 0);
    EXPECT_TRUE(by_rows.faults.empty()) << by_rows.faults[0];
  }
}

/// The last steps of ranks that finished were observed, though no row is left of them.
TEST(JudgedJob, LacksNoStepAtItsEndWhoseRowsWereRemoved) {
  Job job(2);
  observe_until(300, 301, job);
  for (RankExit& end : job.record().exits) end.step = 300;
  job.write();
  job.thin({0, 1}, [](std::int64_t step) { return step <= 8; });
  EXPECT_EQ(verdict_of(job.judged()), Verdict::holds);
  EXPECT_EQ(verdict_of(job.judged(IndexUse::ignored)), Verdict::undecided);
}

/// The step before the first difference has no rows, but an entry in the index.
TEST(JudgedJob, NamesTheStepOfADifferenceAfterRowsThatWereRemoved) {
  Job job(2);
  observe_until(330, 301, job);
  job.write();
  const JobRecord whole = job.judged();
  job.thin({0, 1}, [](std::int64_t step) { return step > 300 || is_one_of_a_hundred(step); });
  const JobRecord judged = job.judged();
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_EQ(judged.results[0].findings[0].step, 301);
  EXPECT_EQ(judged.results[0].findings[0].sentence, whole.results[0].findings[0].sentence);
  EXPECT_EQ(judged.notes, whole.notes);
  EXPECT_EQ(judged.steps, (ObservedSteps{330, 1, 330, 297}));
}

/// Nobody removes rows of steps in which ranks differ, so these files are not what they seem.
TEST(JudgedJob, IsNoEvidenceIfRowsOfADifferenceWereRemoved) {
  Job job(2);
  observe_until(300, 150, job);
  job.write();
  job.thin({0, 1}, is_one_of_a_hundred);
  EXPECT_THAT(refusal_of(job.files().folder(), [&] { job.judged(); }),
              testing::StartsWith(": expected indices that agree in step 150"));
}

TEST(JudgedJob, HasToObserveEveryStepThatWasPlanned) {
  Job job(2);
  job.observe_all({1, 2, 4, 5});
  job.record().planned_steps = 5;
  job.write();
  EXPECT_EQ(job.judged().results[0].reason, "nothing was observed in step 3 of 5");
  EXPECT_EQ(status_of(job.judged()), ExitStatus::undecided);
}

TEST(JudgedJob, NamesTheFirstStepInWhichRanksDiffer) {
  Job job(2);
  job.observe_all(every(10, 200));
  for (int rank = 0; rank < 2; ++rank) {
    job.observe_gradient(rank, 210);
    job.observe_parameter(rank, 210, static_cast<float>(rank));
  }
  job.write();
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    const JobRecord judged = job.judged(use);
    EXPECT_EQ(judged.results[0].verdict, Verdict::holds);
    ASSERT_EQ(judged.results[1].verdict, Verdict::violated);
    EXPECT_EQ(judged.results[1].findings[0].step, 210);
    EXPECT_EQ(judged.symptom.kind, SymptomKind::ranks_differ);
    EXPECT_EQ(status_of(judged), ExitStatus::failed);
  }
}

/// Rank `extra` fits a probe in steps 3 to 5, so its later steps are those of the others two
/// updates before. `fault`: of rank 1 from its step 6 on.
JobRecord judged_with_probe(int ranks, int extra, float fault = 0) {
  Job job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t late = rank == extra ? 2 : 0;
    for (std::int64_t step = 1; step <= 9; ++step) {
      const bool is_probing = late > 0 && step >= 3 && step <= 5;
      if (is_probing) job.files().add(rank, step, "probe", {1, 2});
      if (is_probing && step > 3) continue;  // step 3 is shared
      const std::int64_t update = step > 3 ? step - late : step;
      const float wrong = rank == 1 && step >= 6 ? fault : 0;
      job.observe_gradient(rank, step, static_cast<float>(update) + wrong);
    }
  }
  job.record().claims = {kAgree};
  job.write();
  return job.judged();
}

TEST(RankWithStepsOfItsOwn, LeavesTheJobUndecidedAndSaysWhere) {
  const JobRecord judged = judged_with_probe(2, 0);
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
  EXPECT_EQ(judged.results[0].reason,
            "rank 0 stepped optimizers in step 4 that rank 1 did not (probe), so its later steps "
            "have other numbers and cannot be compared (--ignore leaves those optimizers out)");
}

/// The probe is new in step 2, and its parameters are observed before it on rank 0 alone.
TEST(RankWithStepsOfItsOwn, IsTheReasonOfWhatIsOpenAboutTheStart) {
  Job job(2);
  const LiteralEvidence::Tensor begins{Kind::parameter, Phase::pre_forward, 0};
  for (int rank = 0; rank < 2; ++rank) {
    job.files().add(rank, 1, "w", {1}, begins);
    job.observe_parameter(rank, 1);
  }
  job.files().add(0, 2, "probe", {1}, begins);
  job.files().add(0, 2, "probe", {1}, kParameter);
  job.observe_parameter(1, 2);
  job.record().claims = {agree_across_ranks(Kind::parameter, Phase::pre_forward)};
  job.write();
  EXPECT_THAT(job.judged().results[0].reason, HasSubstr("rank 0 stepped optimizers in step 2"));
}

TEST(RankWithStepsOfItsOwn, HidesNoDifferenceOfTheOthers) {
  EXPECT_EQ(judged_with_probe(3, 2).results[0].verdict, Verdict::undecided);
  const JobRecord judged = judged_with_probe(3, 2, 1);
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_EQ(judged.results[0].findings[0].step, 6);
  EXPECT_EQ(judged.results[0].findings[0].groups, (std::vector<std::vector<int>>{{0}, {1}}));
}

/// Rank 1 freezes w in steps 3 and 4, and differs then.
TEST(RankThatLacksATensor, IsComparedAfterwardsAllTheSame) {
  Job job(2);
  for (std::int64_t step = 1; step <= 9; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      job.files().add(rank, step, "bias", {1});
      const bool is_frozen = rank == 1 && (step == 3 || step == 4);
      if (!is_frozen) job.observe_gradient(rank, step, step > 4 ? static_cast<float>(rank) : 1);
    }
  }
  job.record().claims = {kAgree};
  job.write();
  const JobRecord judged = job.judged();
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_EQ(judged.results[0].findings[0].step, 5);
}

/// A job that trains w from other values on each rank, and synchronises no gradient.
JobRecord judged_from_start(const std::function<void(int rank, Observation&)>& change) {
  Job job(2);
  job.record().claims = {agree_across_ranks(Kind::parameter, Phase::pre_forward), kAgree};
  for (int rank = 0; rank < 2; ++rank) {
    const auto value = static_cast<float>(rank);
    change(rank, job.files().add(rank, 1, "w", {value, 0, 0, 0},
                                 {Kind::parameter, Phase::pre_forward, 0}));
    change(rank, job.files().add(rank, 1, "w", {value, 0, 0, 0}));
    job.files().lose_values(rank, 1);
  }
  job.write();
  return job.judged();
}

/// A job of two steps, whose gradients are changed before they are written. `apart`: of rank 1's
/// parameter in step 2.
JobRecord judged_by_parameters(const std::function<void(int rank, Observation&)>& change,
                               float apart = 0) {
  Job job(2);
  job.record().claims = {kAgree, agree_across_ranks(Kind::parameter, Phase::post_step)};
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 1; step <= 2; ++step) {
      change(rank, job.files().add(rank, step, "w", {static_cast<float>(rank), 2}));
      job.observe_parameter(rank, step, step == 2 ? 1 + apart * static_cast<float>(rank) : 1);
      job.files().lose_values(rank, step);
    }
  }
  job.write();
  return job.judged();
}

void make_summand(int rank, Observation& row) {
  row.is_summand = true;
  row.replica_group = fmt::format("tp {}", rank);
}

TEST(GradientsOfAJob, ThatCannotBeComparedAreJudgedByTheParameters) {
  for (const bool are_summands : {true, false}) {
    const auto change = [&](int rank, Observation& row) {
      if (are_summands) make_summand(rank, row);
      if (!are_summands) row.not_comparable = "sparse layout";
    };
    const JobRecord judged = judged_by_parameters(change);
    EXPECT_EQ(verdict_of(judged), Verdict::holds);
    ASSERT_EQ(judged.results.size(), 1U);
    ASSERT_EQ(judged.coverage.not_compared.size(), 1U);
    EXPECT_EQ(
        judged.coverage.not_compared[0],
        (NotCompared{Kind::gradient,
                     are_summands ? "each rank holds a summand of it" : "sparse layout", 1, "w"}));
    const JobRecord apart = judged_by_parameters(change, 1);
    EXPECT_EQ(verdict_of(apart), Verdict::violated);
    ASSERT_NE(first_difference(apart), nullptr);
    EXPECT_EQ(first_difference(apart)->step, 2);
  }
}

/// As whole tensors they are observed on.
TEST(GradientsOfAJob, ThatWereSummandsHaveNotEnded) {
  Job job(2);
  job.record().claims = {kAgree, agree_across_ranks(Kind::parameter, Phase::post_step)};
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 1; step <= 3; ++step) {
      Observation& row = job.files().add(rank, step, "w", {1, 2});
      if (step == 1) make_summand(rank, row);
      job.files().add(rank, step, "other", {1, 2});
      job.observe_parameter(rank, step);
    }
  }
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(verdict_of(judged), Verdict::holds);
  EXPECT_TRUE(judged.coverage.until.empty()) << judged.coverage.until[0].example;
}

/// Gradients that nobody has say nothing, and neither do parameters alone.
TEST(GradientsOfAJob, ThatDoNotExistAreNotJudgedByTheParameters) {
  const JobRecord judged = judged_by_parameters([](int, Observation& row) {
    row.dtype = {};
    row.not_comparable = "undefined: no gradient";
  });
  EXPECT_EQ(verdict_of(judged), Verdict::undecided);
  EXPECT_EQ(judged.results.size(), 2U);
}

/// A job of two ranks that hold other values of a buffer before their forward passes.
struct SeenBuffer {
  std::int64_t steps = 5;
  std::int64_t until = 5;  ///< the last step in which they differ
  Phase phase = Phase::pre_forward;
  std::vector<std::string> state_buffers = {"bias", "zero"};
  std::string group = "";  ///< that the training named
};

JobRecord judged_with(const SeenBuffer& seen) {
  Job job(2);
  for (std::int64_t step = 1; step <= seen.steps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const float bias = step <= seen.until ? static_cast<float>(rank) : 0;
      job.files().add(rank, step, "bias", {bias, 1}, {Kind::buffer, seen.phase, 0});
      job.files().add(rank, step, "zero", {0, 1}, {Kind::buffer, seen.phase, 0});
      job.observe_gradient(rank, step);
      job.observe_parameter(rank, step);
    }
  }
  job.record().state_buffers = seen.state_buffers;
  if (!seen.group.empty()) job.record().groups = {{seen.group, 2, {0, 1}}};
  job.write();
  return job.judged();
}

TEST(BuffersOfAJob, ThatAreStateAndDifferAreAFinding) {
  for (const SeenBuffer& seen : {SeenBuffer{}, SeenBuffer{.group = "mesh_dp"}}) {
    const JobRecord judged = judged_with(seen);
    EXPECT_EQ(verdict_of(judged), Verdict::violated);
    EXPECT_EQ(judged.symptom.kind, SymptomKind::ranks_differ);
    ASSERT_FALSE(judged.results.back().findings.empty());
    const Finding& found = judged.results.back().findings[0];
    EXPECT_EQ(found.kind, FindingKind::buffers_differ);
    EXPECT_EQ(found.tensor, "bias");
    EXPECT_EQ(found.step, 1);
    EXPECT_EQ(found.last_step, 5);
    EXPECT_EQ(found.tensors, std::vector<std::string>{"bias"});
  }
}

TEST(BuffersOfAJob, ThatRanksMayKeepAreANote) {
  for (const SeenBuffer& seen :
       {SeenBuffer{.until = 4}, SeenBuffer{.steps = 1, .until = 1},
        SeenBuffer{.phase = Phase::post_step}, SeenBuffer{.state_buffers = {}},
        SeenBuffer{.state_buffers = {"zero"}}, SeenBuffer{.group = "mesh_tp"}}) {
    const JobRecord judged = judged_with(seen);
    EXPECT_EQ(verdict_of(judged), Verdict::holds);
    EXPECT_THAT(judged.notes, testing::Contains(HasSubstr("buffers differ between ranks")));
  }
  const JobRecord none = judged_with(SeenBuffer{.until = 0});
  EXPECT_EQ(verdict_of(none), Verdict::holds);
}

/// A data-parallel job of two ranks that see the same samples.
struct SeenSamples {
  std::int64_t steps = 5;
  bool moves_on = true;            ///< each step has a batch of its own
  bool are_same = true;            ///< on both ranks
  std::int64_t batches = 9;        ///< after which they begin again
  float contribution_of_last = 1;  ///< of rank 1; that of rank 0 is 1
  int calls_in_forward = 0;
  std::string group = "";  ///< that the training named
};

JobRecord judged_with(const SeenSamples& seen) {
  Job job(2);
  for (std::int64_t step = 1; step <= seen.steps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto batch = static_cast<float>((seen.moves_on ? step % seen.batches : 1) +
                                            (seen.are_same ? 0 : 9 * rank));
      job.files().add(rank, step, "w", {rank == 1 ? seen.contribution_of_last : 1},
                      {Kind::contribution, Phase::post_backward, 0});
      job.files()
          .add(rank, step, "input 0", {batch, 1, 2}, {Kind::data, Phase::pre_forward, 0})
          .replica_group = fmt::format("data {}", rank);
      job.observe_gradient(rank, step);
      job.observe_parameter(rank, step);
      job.files().lose_values(rank, step);
    }
  }
  job.record().calls_in_forward = seen.calls_in_forward;
  if (!seen.group.empty()) job.record().groups = {{seen.group, 2, {0, 1}}};
  job.write();
  return job.judged();
}

TEST(SamplesOfAJob, ThatAllRanksShareAreAFinding) {
  for (const SeenSamples& seen :
       {SeenSamples{}, SeenSamples{.batches = 4}, SeenSamples{.group = "mesh_dp"}}) {
    const JobRecord judged = judged_with(seen);
    EXPECT_EQ(verdict_of(judged), Verdict::violated);
    EXPECT_EQ(judged.symptom.kind, SymptomKind::same_samples);
    ASSERT_FALSE(judged.results.back().findings.empty());
    EXPECT_EQ(judged.results.back().findings[0].kind, FindingKind::same_samples);
    EXPECT_EQ(judged.results.back().findings[0].places, 5);
  }
}

TEST(SamplesOfAJob, ThatRanksMayShareAreANote) {
  for (const SeenSamples& seen :
       {SeenSamples{.steps = 3}, SeenSamples{.moves_on = false}, SeenSamples{.batches = 3},
        SeenSamples{.contribution_of_last = 0.8F}, SeenSamples{.calls_in_forward = 2},
        SeenSamples{.calls_in_forward = -1}, SeenSamples{.group = "mesh_tp"},
        SeenSamples{.group = "ulysses"}}) {
    const JobRecord judged = judged_with(seen);
    EXPECT_EQ(verdict_of(judged), Verdict::holds);
    EXPECT_THAT(judged.notes, testing::Contains(HasSubstr("ranks 0,1 saw the same samples in ")));
  }
  const JobRecord others = judged_with({.are_same = false});
  EXPECT_EQ(verdict_of(others), Verdict::holds);
  EXPECT_THAT(others.notes, testing::Not(testing::Contains(HasSubstr("same samples"))));
}

/// Ranks of a job that is divided over two dimensions, each with its samples.
std::vector<std::string> notes_of_parts(const std::vector<std::string>& parts,
                                        const std::vector<float>& samples) {
  Job job(static_cast<int>(parts.size()));
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    job.files().add(rank, 1, "w", {1}, kParameter).replica_group = parts[i];
    if (samples[i] == 0) continue;
    job.files()
        .add(rank, 1, "input 0", {samples[i]}, {Kind::data, Phase::pre_forward, 0})
        .replica_group = fmt::format("data {}", rank);
  }
  job.write();
  return job.judged().notes;
}

TEST(SamplesOfAJob, AreToBeTheSameOnRanksThatDivideTheModel) {
  const std::vector<std::string> parts{"tp 0", "tp 1", "tp 0", "tp 1"};
  const auto is_told = testing::Contains(HasSubstr("other samples than ranks with other parts"));
  EXPECT_THAT(notes_of_parts(parts, {5, 5, 6, 6}), testing::Not(is_told));
  EXPECT_THAT(notes_of_parts(parts, {5, 0, 6, 0}), testing::Not(is_told)) << "unknown";
  EXPECT_THAT(notes_of_parts({"dp 0", "dp 1"}, {5, 6}), testing::Not(is_told));
  EXPECT_THAT(notes_of_parts({"ep 0", "ep 1"}, {5, 6}), testing::Not(is_told));
  EXPECT_THAT(notes_of_parts(parts, {5, 6, 7, 8}),
              testing::Contains(testing::StartsWith("ranks 0-3 saw other samples than ranks")));
  EXPECT_THAT(notes_of_parts(parts, {5, 6, 7, 7}),
              testing::Contains(testing::StartsWith("ranks 0,1 saw other samples than ranks")));
}

/// Ranks that begin with `tensors` parameters, of which the first `apart` are apart by `distance`.
JobRecord judged_from_apart(int tensors, int apart, float distance) {
  Job job(2);
  job.record().claims = {agree_across_ranks(Kind::parameter, Phase::pre_forward),
                         agree_across_ranks(Kind::parameter, Phase::post_step)};
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < tensors; ++i) {
      const bool is_other = rank == 1 && i < apart;
      const float value = 1 + (is_other ? distance : 0);
      const std::string name = fmt::format("w{}", i);
      job.files().add(rank, 1, name, {value, 2, 3}, {Kind::parameter, Phase::pre_forward, 0});
      job.files().add(rank, 1, name, {1, 1, 1});
      job.files().add(rank, 1, name, {value - 1, 1, 2}, kParameter);
    }
  }
  job.write();
  return job.judged();
}

TEST(StartOfAJob, OfAPerturbationThatWasTakenBackIsNoOtherStart) {
  const float ulp = 1.2e-7F;
  const JobRecord restored = judged_from_apart(4, 3, ulp);
  EXPECT_EQ(restored.results[0].verdict, Verdict::holds);
  EXPECT_GT(restored.results[0].margin.value_or(0), 0);
  EXPECT_THAT(lines_of(restored),
              testing::Contains(HasSubstr("as of a perturbation that was taken back")));
  // One tensor may be damaged as little, and no rounding is a thousand times as large.
  for (const JobRecord& other : {judged_from_apart(4, 1, ulp), judged_from_apart(4, 3, 1e-4F)}) {
    ASSERT_EQ(other.results[0].verdict, Verdict::violated);
    EXPECT_EQ(other.results[0].findings[0].kind, FindingKind::initial_weights_differ);
  }
}

TEST(UnmarkedTensors, OfAnotherDTypeAreNoShards) {
  const JobRecord judged = judged_from_start([](int rank, Observation& row) {
    if (rank == 1) row.dtype = "bfloat16";
  });
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_THAT(judged.results[0].findings[0].sentence,
              HasSubstr("it is float32 on rank 0 but is bfloat16 on rank 1"));
  EXPECT_EQ(judged.coverage.unshared, 0);
}

TEST(UnmarkedTensors, OfAnotherDTypeMayBeShardsIfTheyAreParts) {
  const JobRecord judged = judged_from_start([](int rank, Observation& row) {
    if (rank == 1) row.dtype = "bfloat16";
    row.global_shape = {8};
    row.replica_group = "a";
  });
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
}

TEST(UnmarkedTensors, OfOneDTypeMayBeShards) {
  const JobRecord judged = judged_from_start([](int, Observation&) {});
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
  EXPECT_THAT(judged.results[0].reason, testing::StartsWith("w differ between ranks"));
  EXPECT_EQ(judged.coverage.unshared, 1);
}

TEST(UnmarkedTensors, OfOtherShapesAreToldWithThem) {
  const JobRecord judged = judged_from_start([](int rank, Observation& row) {
    row.global_shape = row.local_shape =
        rank == 0 ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{4, 1};
    row.offset = {0, 0};
  });
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
  EXPECT_THAT(judged.results[0].reason,
              HasSubstr("w (its shape is [2, 2] on rank 0 and [4, 1] on rank 1) differ"));
}

/// A job whose two ranks have to agree in one of three steps. `apart`: those in which they do not.
JobRecord judged_by_period(const std::vector<std::int64_t>& steps,
                           const std::set<std::int64_t>& apart) {
  Job job(2);
  job.record().agree_every = 3;
  job.record().claims = {agree_periodically(Kind::parameter, Phase::pre_forward), ranks_finish()};
  for (const std::int64_t step : steps) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto value = static_cast<float>(apart.contains(step) ? rank : 0);
      job.files().add(rank, step, "w", {value}, {Kind::parameter, Phase::pre_forward, 0});
      job.observe_gradient(rank, step, static_cast<float>(rank));
    }
  }
  job.write();
  return job.judged();
}

TEST(JobOfPeriodicAgreement, IsInLockstepIfNoRunOfStepsApartIsTooLong) {
  const JobRecord judged = judged_by_period(every(1, 10), {2, 3, 5, 6, 8, 9});
  EXPECT_EQ(verdict_of(judged), Verdict::holds) << judged.results[0].reason;
  EXPECT_EQ(judged.results[0].comparisons, 10);
  EXPECT_THAT(heading_of(judged), testing::StartsWith("in lockstep every 3 steps: "));
}

TEST(JobOfPeriodicAgreement, HasFailedInTheStepInWhichItHadToAgree) {
  const JobRecord judged = judged_by_period(every(1, 10), {2, 3, 5, 6, 7, 8});
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_EQ(judged.results[0].findings[0].step, 7);
  EXPECT_THAT(judged.results[0].findings[0].sentence, HasSubstr("last did in step 4."));
  EXPECT_EQ(judged.symptom.kind, SymptomKind::ranks_differ);
  EXPECT_EQ(judged.symptom.text, "ranks differ from step 7 on: w");
}

TEST(JobOfPeriodicAgreement, IsUndecidedIfStepsWereNotObservedInWhichItHadToAgree) {
  EXPECT_EQ(judged_by_period({1, 2, 3, 6, 7, 8}, {2, 3, 6, 7}).results[0].verdict,
            Verdict::undecided);
  EXPECT_EQ(judged_by_period({1, 2, 102, 202}, {2, 102, 202}).results[0].verdict,
            Verdict::undecided);
  EXPECT_EQ(judged_by_period({1, 2, 102, 202}, {2}).results[0].verdict, Verdict::holds);
}

/// The first observed step is one between two agreements.
TEST(JobOfPeriodicAgreement, MayBeginApartIfItsFirstStepsWereNotObserved) {
  EXPECT_EQ(verdict_of(judged_by_period({5, 6, 7, 8}, {5, 6, 8})), Verdict::holds);
}

TEST(JobOfPeriodicAgreement, IsUndecidedIfItWasNeverSeenToAgree) {
  const JobRecord judged = judged_by_period({5, 6}, {5, 6});
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
  EXPECT_THAT(judged.results[0].reason, HasSubstr("agreed in no step"));
}

/// As of a pipeline, whose stages have tensors of their own.
TEST(JobOfPeriodicAgreement, IsUndecidedIfNoTensorIsOnSeveralRanks) {
  Job job(2);
  job.record().agree_every = 3;
  job.record().claims = {agree_periodically(Kind::parameter, Phase::pre_forward)};
  for (const std::int64_t step : every(1, 4)) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string stage = std::to_string(rank);
      job.files()
          .add(rank, step, "w" + stage, {1}, {Kind::parameter, Phase::pre_forward, 0})
          .replica_group = "stage " + stage;
    }
  }
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(judged.results[0].verdict, Verdict::undecided);
  EXPECT_EQ(judged.results[0].reason, "not triggered: nothing was compared");
}

/// Rank 1 was killed between gradient and parameter of step 7, rank 0 a step later.
TEST(JudgedJob, MayEndAnywhere) {
  Job job(2);
  job.observe_all(every(1, 6));
  job.observe_gradient(0, 7);
  job.observe_parameter(0, 7);
  job.observe_gradient(1, 7);
  job.observe_gradient(0, 8);
  job.kill(0);
  job.kill(1);
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(judged.results[0].verdict, Verdict::holds) << judged.results[0].reason;
  EXPECT_EQ(judged.results[1].verdict, Verdict::holds) << judged.results[1].reason;
  EXPECT_EQ(judged.results[2].verdict, Verdict::violated);
}

/// The same files, from ranks that report that they finished.
TEST(JudgedJob, WhoseRanksFinishedAfterDifferentStepsIsUndecided) {
  Job job(2);
  job.observe_all(every(1, 6));
  job.observe_gradient(0, 7);
  job.observe_parameter(0, 7);
  job.write();
  EXPECT_EQ(job.judged().results[0].reason, "w in step 7 was not observed on rank 1");
  EXPECT_EQ(job.judged().results[1].verdict, Verdict::undecided);
}

TEST(JudgedJob, DiffersInTheStepThatItEndedIn) {
  Job job(2);
  job.observe_all(every(1, 6));
  job.observe_gradient(0, 7, 1);
  job.observe_gradient(1, 7, 2);
  job.observe_parameter(0, 7);
  job.kill(0);
  job.kill(1);
  job.write();
  ASSERT_EQ(job.judged().results[0].verdict, Verdict::violated);
  EXPECT_EQ(job.judged().results[0].findings[0].step, 7);
}

/// The death of one rank excuses its missing observations, but not those of the others.
TEST(JudgedJob, WhoseRanksStoppedObservingSomethingIsUndecided) {
  Job job(2);
  job.observe_all(every(1, 6));
  for (std::int64_t step = 7; step <= 12; ++step) {
    for (int rank = 0; rank < 2; ++rank) job.observe_gradient(rank, step);
  }
  job.kill(1);
  job.write();
  EXPECT_EQ(job.judged().results[0].verdict, Verdict::holds);
  EXPECT_EQ(job.judged().results[1].verdict, Verdict::undecided);
  EXPECT_EQ(job.judged().results[1].reason, "nothing was observed after step 6 of 11");
}

/// Parameters in every tenth step, gradients in each.
TEST(JudgedJob, MayObserveSomeTensorsLessOftenThanOthers) {
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    Job job(2);
    for (std::int64_t step = 1; step <= 57; ++step) {
      for (int rank = 0; rank < 2; ++rank) {
        job.observe_gradient(rank, step);
        if (step % 10 == 1) job.observe_parameter(rank, step);
        if (step % 20 == 1) job.files().add(rank, step, "v", {1, 2}, kParameter);
      }
    }
    job.write();
    EXPECT_EQ(verdict_of(job.judged(use)), Verdict::holds)
        << job.judged(use).results[0].reason << job.judged(use).results[1].reason;
  }
}

/// Rank 0 observes the gradient of v until step 20, and rank 1 until step `last`.
JobRecord judged_with_end(std::int64_t last, IndexUse use,
                          std::optional<std::int64_t> planned = std::nullopt) {
  Job job(2);
  for (std::int64_t step = 1; step <= 57; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      job.observe_gradient(rank, step);
      const bool is_due = step % 10 == 0 && step <= (rank == 0 ? 20 : last);
      if (is_due) job.files().add(rank, step, "v", {1, 2});
    }
  }
  job.record().claims = {kAgree};
  job.record().planned_steps = planned;
  job.write();
  return job.judged(use);
}

TEST(JudgedJob, TellsUntilWhenATensorWasComparedThatNobodyTrainsAnyMore) {
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    const JobRecord judged = judged_with_end(20, use);
    EXPECT_EQ(judged.results[0].verdict, Verdict::holds) << judged.results[0].reason;
    EXPECT_EQ(judged.coverage.until, (std::vector<ComparedUntil>{{Kind::gradient, 20, 1, "v"}}));
  }
}

TEST(JudgedJob, IsUndecidedIfATensorEndsInDifferentStepsOrAgainstItsPlan) {
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    EXPECT_EQ(judged_with_end(10, use).results[0].reason,
              "v in step 20 was not observed on rank 1");
    EXPECT_EQ(judged_with_end(20, use, 57).results[0].reason,
              "no rank observed v after step 20 of 57");
  }
}

TEST(JudgedJob, SaysOnWhichRankAloneAParameterIs) {
  Job job(2);
  job.observe_all({1, 2});
  job.files().add(1, 1, "probe", {1, 2}, kParameter);
  job.write();
  const JobRecord judged = job.judged();
  ASSERT_EQ(judged.coverage.not_compared.size(), 1U);
  EXPECT_EQ(judged.coverage.not_compared[0].reason, "on rank 1 only");
  EXPECT_TRUE(judged.coverage.until.empty());  // it was never compared
}

/// Rank 1 stops observing after step 5 and continues training; in step 1000 all are killed.
TEST(JudgedJob, WithARankThatFellSilentIsUndecided) {
  Job job(2);
  job.observe_all(every(1, 5));
  for (std::int64_t step = 6; step <= 1000; ++step) {
    job.observe_gradient(0, step);
    job.observe_parameter(0, step);
  }
  for (int rank = 0; rank < 2; ++rank) {
    job.kill(rank);
    job.record().exits[static_cast<std::size_t>(rank)].step = 1000;
  }
  job.write();
  EXPECT_EQ(job.judged().results[0].reason, "w in step 6 was not observed on rank 1");
}

TEST(JudgedJob, WhoseRanksAllFellSilentIsUndecided) {
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    Job job(2);
    job.observe_all(every(1, 100));
    for (RankExit& end : job.record().exits) end.step = 1000;
    job.write();
    EXPECT_EQ(job.judged(use).results[0].reason, "nothing was observed after step 100 of 999");
  }
}

/// Rank 2 dies in step 4; the others diverge in step 6.
TEST(JudgedJob, ComparesThoseThatAreLeft) {
  Job job(3);
  job.observe_all(every(1, 4));
  for (std::int64_t step = 5; step <= 20; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      job.observe_gradient(rank, step, step < 6 ? 1 : static_cast<float>(rank));
    }
  }
  job.kill(2);
  job.record().exits[2].step = 4;
  job.write();
  const JobRecord judged = job.judged();
  ASSERT_EQ(judged.results[0].verdict, Verdict::violated);
  EXPECT_EQ(judged.results[0].findings[0].step, 6);
}

/// Regardless of its claims.
TEST(JudgedJob, WhoseRankDiedIsNotInLockstep) {
  Job job(2);
  job.observe_all(every(1, 20));
  job.kill(1);
  job.record().claims = {kAgree};
  job.write();
  EXPECT_EQ(job.judged().results[0].verdict, Verdict::holds);
  EXPECT_EQ(verdict_of(job.judged()), Verdict::violated);
}

/// Each stage has another tensor of the same name, and no replica group says so.
TEST(JudgedJob, OfAPipelineIsNotComparedAcrossStagesInItsLastStep) {
  Job job(3);
  for (std::int64_t step = 1; step <= 20; ++step) {
    for (int rank = 0; rank < 2; ++rank) job.observe_gradient(rank, step, static_cast<float>(rank));
    job.files().add(2, step, "norm", {1, 2});
  }
  job.interrupt(20);
  job.write();
  EXPECT_EQ(job.judged().results[0].verdict, Verdict::undecided);
}

TEST(JudgedJob, WhoseRanksFinishedInDifferentStepsIsUndecidedThoughNoneOfThemWasObserved) {
  Job job(2);
  job.observe_all(every(10, 90));
  job.record().exits[0].step = 100;
  job.record().exits[1].step = 93;
  job.write();
  EXPECT_EQ(job.judged().results[0].reason, "ranks finished in different steps, 93 to 100");
}

TEST(JudgedJob, ThatTrainedBeyondItsPlanIsUndecided) {
  Job job(2);
  job.observe_all(every(1, 5));
  job.record().planned_steps = 5;
  for (RankExit& end : job.record().exits) end.step = 1000;
  job.write();
  EXPECT_EQ(job.judged().results[0].reason,
            "ranks finished in step 1000, but only 5 steps were planned");
}

TEST(JudgedJob, WithoutAListOfItsFilesHasFailed) {
  Job job(2);
  job.observe_all({1, 2});
  job.write();
  job.record().manifest.reset();
  EXPECT_EQ(status_of(job.judged()), ExitStatus::failed);
}

/// Rank 0 is in a collective, rank 1 still computes: typical for a job ended by its owner.
TEST(JudgedJob, ThatItsOwnerEndsWithinACollectiveIsNoFinding) {
  Job job(2);
  job.observe_all(every(1, 20));
  job.interrupt(20);
  for (int rank = 0; rank < 2; ++rank) {
    CollectiveLog log(collective_log_file(job.files().folder(), rank), rank,
                      process_identity(job.record(), rank));
    Collective call;
    call.group = "world";
    call.group_size = 2;
    call.operation = kJoin;
    log.leave(log.enter(call), CollectiveState::completed);
    call.operation = "allreduce";
    call.number = 1;
    call.step = 20;
    if (rank == 0) log.enter(call);
  }
  job.record().claims.push_back(collectives_match());
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(status_of(judged), ExitStatus::undecided) << judged.symptom.text;
  EXPECT_EQ(judged.results[3].verdict, Verdict::undecided);
}

/// There was no claim about rank exits.
TEST(JudgedJob, ThatItsOwnerEndsIsNeverCalledInLockstep) {
  Job job(2);
  job.observe_all(every(1, 20));
  job.interrupt(0);
  job.record().claims = {kAgree};
  job.write();
  EXPECT_EQ(status_of(job.judged()), ExitStatus::undecided);
}

TEST(JudgedJob, ThatItsOwnerEndsIsUndecidedAndNoFinding) {
  Job job(2);
  job.observe_all(every(1, 20));
  job.interrupt(20);
  job.write();
  const JobRecord judged = job.judged();
  EXPECT_EQ(judged.results[0].verdict, Verdict::holds);
  EXPECT_EQ(judged.results[2].reason, "rank 0 was interrupted in step 20");
  EXPECT_EQ(status_of(judged), ExitStatus::undecided);
}

/// The copies of rank 1's tensor are on rank 3, which observed nothing.
TEST(JudgedJob, WithARankThatObservedNothingIsUndecided) {
  Job job(4);
  for (std::int64_t step = 1; step <= 10; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      job.files().add(rank, step, "w", {1, 2}).replica_group = rank == 1 ? "b" : "a";
    }
  }
  job.record().claims = {kAgree};
  job.write();
  EXPECT_EQ(job.judged().results[0].reason, "rank 3 observed none of the gradients");
}

TEST(JudgedJob, WhoseRankRaisedBeforeItObservedAnythingIsJudged) {
  Job job(2);
  job.observe_gradient(0, 1);
  job.record().exits[1].kind = ExitKind::raised;
  job.record().exits[1].error = "No module named 'torch'.";
  job.record().exits[1].step = 0;
  job.write();
  fs::remove(job.file("rank-1.csv"));
  job.record().manifest = write_manifest(job.files().folder(), 2, "job 3f9c2a");
  const JobRecord judged = job.judged();
  EXPECT_EQ(status_of(judged), ExitStatus::failed);
  EXPECT_EQ(judged.symptom.kind, SymptomKind::raised);
  EXPECT_TRUE(judged.faults.empty());
}

TEST(JudgedJob, OfNoStepsIsUndecided) {
  Job job(2);
  job.write();
  EXPECT_EQ(verdict_of(job.judged()), Verdict::undecided);
  EXPECT_EQ(status_of(job.judged()), ExitStatus::not_applicable);
  EXPECT_EQ(job.judged().steps, ObservedSteps{});
}

TEST(JudgedJob, WithoutClaimsIsUndecided) {
  Job job(2);
  job.observe_all({1});
  job.record().claims.clear();
  job.write();
  EXPECT_EQ(verdict_of(job.judged()), Verdict::undecided);
  EXPECT_EQ(status_of(job.judged()), ExitStatus::not_applicable);
}

TEST(JudgedJob, IsOneWhoseFilesSayTheirJob) {
  Job job(2);
  job.observe_all({1, 2});
  job.write();
  job.record().id = "another";
  try {
    job.judged();
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a file of rank 0 of job another"));
  }
}

class ChangedJob : public testing::Test {
 protected:
  ChangedJob() {
    job_.observe_all(every(1, 3));
    job_.write();
  }

  std::vector<std::string> faults() const { return job_.judged().faults; }

  Job job_{2};
};

TEST_F(ChangedJob, IsNoneWhereNothingWasChanged) { EXPECT_TRUE(faults().empty()); }

TEST_F(ChangedJob, HasFailedThoughEveryClaimHolds) {
  write_text(job_.file("rank-0.csv"), text_of(job_.file("rank-0.csv")));
  EXPECT_TRUE(faults().empty());
  write_text(job_.file("collectives-9.bin"), "of nobody");
  write_text(job_.file("rank-1.log"), "printed later");
  EXPECT_TRUE(faults().empty());
  write_text(job_.file("rank-0.status.json"), "{}");
  const JobRecord judged = job_.judged();
  for (const ClaimResult& result : judged.results) EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(status_of(judged), ExitStatus::failed);
  EXPECT_THAT(judged.faults,
              testing::ElementsAre("rank-0.status.json was added: manifest.csv does not list it"));
}

TEST_F(ChangedJob, MayLackSnapshotsAndIndices) {
  fs::remove(job_.file("rank-0.index"));
  fs::remove(job_.file("rank-1.step-2.safetensors"));
  EXPECT_TRUE(faults().empty());
}

}  // namespace
}  // namespace lockstep
