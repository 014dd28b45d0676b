// Training jobs that were not prepared for it, observed by the hook and judged like those of
// `watch`.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/job/job_process.h"
#include "harness/job/job_record.h"
#include "harness/record/sketch.h"
#include "harness/record/watch_control.h"
#include "harness/verdict/judge_run.h"
#include "reports/formats/job_report.h"
#include "reports/record/result.h"
#include "tests/command.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The trainings of trainings.py, run once.
class Trainings {
 public:
  static const Trainings& get() {
    static const Trainings trainings;
    return trainings;
  }

  const Outcome& outcome() const { return outcome_; }

  /// Whether another torch than that of the build cannot run this training, unobserved.
  bool was_skipped(const std::string& name) const {
    return outcome_.err.find("skipped: " + name + ": ") < outcome_.err.npos;
  }

  JobRecord judged(const std::string& name, std::int64_t agree_every = 0) const {
    RunRecord run = record_of_job({.agree_every = agree_every});
    JobRecord& job = run.jobs[0];
    job.id = name;
    add_ranks(job, folder_.path() / name, JobEnd{});
    judge_run(run, folder_.path() / name);
    return run.jobs[0];
  }

 private:
  Trainings() {
    // As if its watch had seen that the ranks differ.
    const fs::path unsaid = folder_.path() / "local_sgd_unsaid" / "job";
    fs::create_directories(unsaid);
    WatchControl::create(unsaid);
    WatchControl(unsaid).ask_to_keep();
    const char* const other = std::getenv("LOCKSTEP_TEST_WATCH_LIBRARY");
    outcome_ = run_shell(fmt::format(
        "PYTHONPATH={0}/harness/watch/python/start LOCKSTEP_WATCH_LIBRARY={1} "
        "LOCKSTEP_WATCH_FOLDER={2} "
        "LOCKSTEP_WATCH_JOB=none LOCKSTEP_WATCH_ALSO=micro-batches LOCKSTEP_WATCH_DATA=1 "
        "OMP_NUM_THREADS=1 {3} {2}",
        LOCKSTEP_SOURCE_DIR, other ? other : LOCKSTEP_WATCH_LIBRARY, folder_.path().string(),
        forked_ranks("trainings")));
  }

  TemporaryFolder folder_;
  Outcome outcome_;
};

TEST(WatchedTrainings, ComputeTheSameLossesAsUnobservedOnes) {
  const Outcome& outcome = Trainings::get().outcome();
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out, "");
  // As `hook_fails` and `threads_step` make it, on each rank.
  std::size_t failures = 0;
  for (const std::string& line : lines_of(outcome.err)) {
    failures += line.find("no longer observed") < line.npos ? 1 : 0;
  }
  EXPECT_EQ(failures, 4U) << outcome.err;
}

std::string said_of(const JobRecord& job) {
  std::string text;
  for (const ClaimResult& result : job.results) {
    text += fmt::format("{}: {} {}\n", sentence(result.claim), name(result.verdict), result.reason);
    for (const Finding& finding : result.findings) text += "  " + finding.sentence + "\n";
  }
  for (const NotCompared& one : job.coverage.not_compared) {
    text += fmt::format("not compared: {} {}: {}\n", one.count, one.example, one.reason);
  }
  for (const std::string& note : job.notes) text += "note: " + note + "\n";
  for (const std::string& fault : job.faults) text += "fault: " + fault + "\n";
  return text;
}

/// A healthy training, and how many of its parameters have copies.
struct Healthy {
  std::string name;
  std::int64_t parameters = 4;
  std::int64_t compared = 4;
  std::int64_t steps = 6;
  std::int64_t agree_every = 0;
};

class HealthyTraining : public testing::TestWithParam<Healthy> {};

TEST_P(HealthyTraining, RaisesNoAlarm) {
  const Healthy& expected = GetParam();
  if (Trainings::get().was_skipped(expected.name)) GTEST_SKIP() << "this torch cannot run it";
  const JobRecord job = Trainings::get().judged(expected.name, expected.agree_every);
  EXPECT_EQ(job.coverage.parameters, expected.parameters) << said_of(job);
  EXPECT_EQ(job.coverage.compared, expected.compared) << said_of(job);
  EXPECT_EQ(job.steps.count, expected.steps);
  EXPECT_EQ(job.steps.last, expected.steps);
  EXPECT_TRUE(job.faults.empty()) << said_of(job);
  // Parts by declaration are recorded; a stage that does not say so has nothing to compare.
  const bool is_told = expected.compared > 0 || job.coverage.declared == expected.parameters;
  EXPECT_EQ(exit_of(job, JobEnd{}), is_told ? 0 : 3) << said_of(job);
  EXPECT_EQ(is_recording(job), expected.compared == 0 && is_told);
}

std::string name_of(const testing::TestParamInfo<Healthy>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Watched, HealthyTraining,
    testing::Values(Healthy{"ddp_sgd"}, Healthy{"ddp_adamw_foreach"}, Healthy{"ddp_adamw_fused"},
                    Healthy{"custom_optimizer"}, Healthy{"accumulation"}, Healthy{"frozen"},
                    Healthy{"batch_norm", 6, 6}, Healthy{"dropout"},
                    Healthy{"autocast_with_scaler"}, Healthy{"fully_shard_uneven", 4, 0},
                    Healthy{"fsdp1", 4, 0}, Healthy{"fsdp1_flat", 1, 0},
                    Healthy{"tensor_parallel", 6, 3}, Healthy{"zero_redundancy"},
                    Healthy{"compiled_step"}, Healthy{"optimizer_in_backward"}, Healthy{"closure"},
                    Healthy{"two_optimizers", 8, 8, 12}, Healthy{"pipeline", 4, 0},
                    Healthy{"data_loader"}, Healthy{"captured"},
                    Healthy{"checkpoint_and_evaluation"}, Healthy{"replicas_computed"},
                    Healthy{"local_sgd", 4, 4, 12, 3}, Healthy{"local_sgd_by_averager", 4, 4, 12},
                    Healthy{"averaged_after_each_step", 4, 4, 12, 1},
                    Healthy{"averager_of_each_step", 4, 4, 12}, Healthy{"everything_else", 6, 6},
                    Healthy{"parameter_replaced"}, Healthy{"trained_one_after_another", 8, 8},
                    Healthy{"surroundings"}, Healthy{"probe_of_rank_0"},
                    Healthy{"sequence_parallel", 6, 3}, Healthy{"sparse_gradient", 3, 3},
                    Healthy{"closure_clears"}, Healthy{"pipeline_of_a_whole_model", 4, 0},
                    Healthy{"held_in_another_module"}, Healthy{"perturbation_taken_back"}),
    name_of);

/// A planted fault and the first finding that it has to give.
struct Fault {
  std::string name;
  Kind kind = Kind::gradient;
  std::int64_t step = 3;
  std::string tensor = "2.weight";
  std::int64_t agree_every = 0;
};

class FaultyTraining : public testing::TestWithParam<Fault> {};

TEST_P(FaultyTraining, IsFoundAtItsStepAndTensor) {
  const Fault& fault = GetParam();
  const JobRecord job = Trainings::get().judged(fault.name, fault.agree_every);
  EXPECT_EQ(exit_of(job, JobEnd{}), 1) << said_of(job);
  const Finding* const found = first_difference(job);
  ASSERT_NE(found, nullptr) << said_of(job);
  EXPECT_EQ(found->claim.kind, fault.kind) << said_of(job);
  EXPECT_EQ(found->step, fault.step) << said_of(job);
  EXPECT_EQ(found->tensor, fault.tensor) << said_of(job);
  EXPECT_EQ(found->groups, (std::vector<std::vector<int>>{{0}, {1}}));
}

std::string name_of_fault(const testing::TestParamInfo<Fault>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Watched, FaultyTraining,
    testing::Values(Fault{"loss_on_unwrapped_module", Kind::gradient, 1, "0.weight"},
                    Fault{"gradient_scaled"}, Fault{"element_flipped"},
                    Fault{"gradients_scaled_by_little", Kind::gradient, 1, "0.weight"},
                    Fault{"nan_on_one_rank"},
                    Fault{"unfrozen_on_one_rank", Kind::parameter, 1, "0.weight"},
                    Fault{"stale_parameters", Kind::parameter, 4, "0.weight"},
                    Fault{"skipped_step", Kind::gradient, 3, "0.weight"},
                    Fault{"wrong_seed", Kind::parameter, 1, "0.weight"},
                    Fault{"layer_not_reduced", Kind::gradient, 1, "2.weight"},
                    Fault{"group_of_one", Kind::gradient, 1, "0.weight"},
                    Fault{"local_sgd_unsaid", Kind::gradient, 1, "0.weight"},
                    Fault{"averages_unsaid", Kind::gradient, 1, "0.weight"},
                    Fault{"replaced_and_not_reduced"},
                    Fault{"sequence_parallel_not_reduced", Kind::gradient, 1, "0.weight"},
                    Fault{"tensor_parallel_divides_samples", Kind::gradient, 1, "0.weight"},
                    Fault{"held_in_another_module_not_reduced", Kind::gradient, 1, "0.weight"},
                    Fault{"averager_not_called", Kind::parameter, 4, "0.weight"},
                    // Ranks agree before step 5, and not in 6, 7 and 8.
                    Fault{"local_sgd_stops", Kind::parameter, 8, "0.weight", 3},
                    // Step 5 is followed by the last average.
                    Fault{"averaged_at_last_after_step_5", Kind::parameter, 7, "0.weight", 1}),
    name_of_fault);

/// Neither lacks a wrapper, and each reduces its gradients as tensor parallelism does.
TEST(RanksThatDivideTheModel, NeedTheSameSamplesOrASum) {
  for (const char* const name :
       {"tensor_parallel_divides_samples", "sequence_parallel_not_reduced"}) {
    EXPECT_THAT(Trainings::get().judged(name).symptom.text,
                testing::MatchesRegex("gradients differ between ranks that divide the model "
                                      "\\(. of 3, from step 1\\): they need the same samples, or "
                                      "a sum over these ranks"))
        << name;
  }
}

TEST(RanksThatAgreeNowAndThen, AreToldFromThoseThatNeverDo) {
  EXPECT_THAT(said_of(Trainings::get().judged("local_sgd_unsaid")),
              testing::HasSubstr("agree again every 3 steps (before step 2, 5, 8, 11), as with "
                                 "LocalSGD; if that is meant, watch with --agree-every 3"));
  EXPECT_THAT(said_of(Trainings::get().judged("averages_unsaid")),
              testing::HasSubstr("agree again every step (before step 2, 3, 4, 5), as with "
                                 "LocalSGD; if that is meant, watch with --agree-every 1"));
  EXPECT_THAT(said_of(Trainings::get().judged("ddp_sgd")),
              testing::Not(testing::HasSubstr("agree again")));
  EXPECT_THAT(said_of(Trainings::get().judged("averaged_at_last_after_step_5", 1)),
              testing::HasSubstr("have to agree every step, and last did in step 6"));
  EXPECT_THAT(said_of(Trainings::get().judged("local_sgd_stops", 3)),
              testing::HasSubstr("have to agree every 3 steps, and last did in step 5"));
  // A shorter period than that of the training.
  EXPECT_EQ(exit_of(Trainings::get().judged("local_sgd", 2), JobEnd{}), 1);
  const JobRecord apart = Trainings::get().judged("local_sgd_begins_apart", 3);
  EXPECT_EQ(exit_of(apart, JobEnd{}), 2) << said_of(apart);
}

TEST(EverythingElse, IsComparedAndDecidesNothing) {
  const std::string said = said_of(Trainings::get().judged("everything_else"));
  EXPECT_THAT(said, testing::HasSubstr("note: buffers agree across ranks before the forward "
                                       "passes, 3 of them\n"));
  EXPECT_THAT(said, testing::HasSubstr("note: optimizer states agree across ranks, 18 of them\n"));
  // Nothing draws from Python's generator, which each rank seeds for itself.
  EXPECT_THAT(said, testing::HasSubstr("note: random states agree across ranks, 1 of them\n"));
  EXPECT_THAT(said, testing::HasSubstr("note: the gradients of 6 parameters were observed in each "
                                       "of up to 2 backward passes of a step, before their "
                                       "reduction\n"));
}

TEST(TablesOfAJob, ShowTheGradientsAndTheDriftOfEveryStep) {
  const JobRecord healthy = Trainings::get().judged("ddp_sgd");
  ASSERT_EQ(healthy.tables.size(), 2U);
  for (const Table& table : healthy.tables) {
    ASSERT_EQ(table.rows.size(), 6U);
    for (const Table::Row& row : table.rows) {
      EXPECT_TRUE(row.entries[0].synced);
      EXPECT_TRUE(table.spec.quantity == Quantity::norm
                      ? row.entries[0].values[0] == row.entries[0].values[1]
                      : row.entries[0].values[0] == 0);
    }
  }
  const JobRecord faulty = Trainings::get().judged("loss_on_unwrapped_module");
  ASSERT_EQ(faulty.tables.size(), 2U);
  const Table::Entry& gradients = faulty.tables[0].rows[0].entries[0];
  EXPECT_FALSE(gradients.synced);
  EXPECT_NE(gradients.values[0], gradients.values[1]);
  // SGD with the rate 0.1 moves each rank by its own gradient.
  const Table::Entry& drift = faulty.tables[1].rows[0].entries[0];
  EXPECT_GT(drift.estimate.value_or(0), 0);
  EXPECT_LT(drift.estimate.value_or(0),
            0.1 * (1 + kSketchError) * (gradients.values[0] + gradients.values[1]));
}

TEST(CollectivesOfAJob, AreCountedByTheSizeOfTheirGroups) {
  const auto said = [](const char* training) {
    return fmt::format("{}", fmt::join(lines_of(Trainings::get().judged(training)), "\n"));
  };
  using testing::HasSubstr;
  if (std::getenv("LOCKSTEP_TEST_PYTHON") && Trainings::get().judged("ddp_sgd").traffic.empty()) {
    EXPECT_THAT(said("group_of_one"), HasSubstr("collectives were not counted"));
    GTEST_SKIP() << "this torch has no recorder of Gloo's collectives";
  }
  EXPECT_THAT(said("group_of_one"), HasSubstr("step 2: 3 over 1 of 2 ranks"));
  EXPECT_THAT(said("loss_on_unwrapped_module"),
              HasSubstr("no collective was called before the update of step 2"));
  EXPECT_THAT(said("skipped_step"),
              HasSubstr("step 3: 1 (rank 0) and 2 (rank 1) over 2 of 2 ranks"));
  EXPECT_THAT(Trainings::get().judged("skipped_step").symptom.text,
              HasSubstr("Cause: rank 1 is an optimizer step behind: its gradients of step 3 are "
                        "those of step 4 on rank 0"));
  EXPECT_THAT(said("autocast_with_scaler"), HasSubstr("a gradient scaler skipped a step: 3"));
}

TEST(StepsCapturedInAGraph, AreNoStepsAndAreTold) {
  const JobRecord job = Trainings::get().judged("captured");
  EXPECT_EQ(job.captured_updates, 2);
  EXPECT_THAT(lines_of(job),
              testing::Contains("2 steps of optimizers were captured in a CUDA graph: what replays "
                                "of it changed was not observed"));
  EXPECT_EQ(Trainings::get().judged("ddp_sgd").captured_updates, 0);
}

TEST(ElementsThatAreNotFinite, AreNamedByTensorAndRank) {
  const JobRecord one = Trainings::get().judged("nan_on_one_rank");
  EXPECT_THAT(said_of(one), testing::HasSubstr(
                                "parameters became not finite in step 3: 2.weight on rank 1 (64 of "
                                "64 elements). First in that step: the gradient of 2.weight on "
                                "rank 1 (64 of 64 elements); finite on rank 0."));
  EXPECT_EQ(one.symptom.kind, SymptomKind::became_not_finite);
  const JobRecord all = Trainings::get().judged("autocast_with_scaler");
  EXPECT_THAT(said_of(all), testing::HasSubstr("not finite, first in step 3: the contribution of "
                                               "2.weight on ranks 0,1 (64 of 64 elements)"));
}

/// Stages of a pipeline share no parameter, so there is nothing to show.
TEST(TablesOfAJob, AreAboutCopiesAlone) {
  EXPECT_TRUE(Trainings::get().judged("pipeline").tables.empty());
  EXPECT_TRUE(Trainings::get().judged("unmarked_shards").tables.empty());
}

/// The gradients differ in their last bits, and that is said.
TEST(ComputedReplicas, AgreeUpToRounding) {
  const JobRecord job = Trainings::get().judged("replicas_computed");
  const ClaimResult& gradients = job.results.at(1);
  ASSERT_EQ(gradients.claim, agree_across_ranks(Kind::gradient, Phase::pre_step));
  EXPECT_GT(gradients.margin.value_or(0), 0);
  EXPECT_LT(gradients.margin.value_or(2), 1);
  EXPECT_THAT(lines_of(job), testing::Contains(testing::HasSubstr("up to rounding")));
}

TEST(GradientsThatCannotBeCompared, AreToldApartFromTheirParameters) {
  EXPECT_THAT(
      lines_of(Trainings::get().judged("sequence_parallel")),
      testing::Contains("not compared: 0.bias (2 such gradients): each rank holds a summand "
                        "of it"));
  EXPECT_THAT(lines_of(Trainings::get().judged("sparse_gradient")),
              testing::Contains("not compared: 0.weight (one gradient): sparse_coo layout"));
  EXPECT_THAT(
      lines_of(Trainings::get().judged("closure_clears")),
      testing::Contains("not compared: 0.bias (4 such gradients): cleared by the closure of "
                        "the optimizer's step"));
}

TEST(InitialWeights, ThatDifferAreToldAsSuch) {
  EXPECT_EQ(Trainings::get().judged("wrong_seed").symptom.text,
            "ranks differ before step 1 (initial weights): 0.weight (4 of 4 parameters)");
}

TEST(ModelInAnotherModule, IsSaid) {
  EXPECT_THAT(said_of(Trainings::get().judged("held_in_another_module")),
              testing::HasSubstr("note: rank 0 names the parameters net.*"));
}

TEST(PerturbationTakenBack, IsToldFromOtherInitialWeights) {
  EXPECT_THAT(lines_of(Trainings::get().judged("perturbation_taken_back")),
              testing::Contains(testing::HasSubstr("as of a perturbation that was taken back")));
}

TEST(UnmarkedShards, AreNoAlarmAndNoAgreement) {
  const JobRecord job = Trainings::get().judged("unmarked_shards");
  EXPECT_EQ(exit_of(job, JobEnd{}), 2) << said_of(job);
  EXPECT_EQ(job.coverage.unshared, 4);
  EXPECT_THAT(said_of(job), testing::HasSubstr("each rank holds its own shard"));
}

/// The ranks agree for as long as they were observed, which is no agreement of the job.
TEST(FailedHook, LeavesTheJobUndecided) {
  const JobRecord job = Trainings::get().judged("hook_fails");
  EXPECT_EQ(exit_of(job, JobEnd{}), 2) << said_of(job);
  EXPECT_EQ(job.steps.last, 3);
  EXPECT_THAT(said_of(job), testing::HasSubstr("note: rank 1: no longer observed: "));
}

/// A part that is not trained could be a shard. It is observed all the same.
TEST(PartThatNoOptimizerHolds, IsComparedBeforeTheFirstStep) {
  const JobRecord job = Trainings::get().judged("frozen_part_differs");
  EXPECT_EQ(exit_of(job, JobEnd{}), 2) << said_of(job);
  EXPECT_EQ(job.coverage.parameters, 4) << said_of(job);
  EXPECT_THAT(said_of(job), testing::HasSubstr("0.weight differ between ranks before the first "
                                               "step, and no gradient says that they are copies"));
}

TEST(StepsInSeveralThreads, AreNotObservedAndSaidSo) {
  const JobRecord job = Trainings::get().judged("threads_step");
  EXPECT_EQ(exit_of(job, JobEnd{}), 2) << said_of(job);
  EXPECT_THAT(said_of(job), testing::HasSubstr("optimizers step in several threads at once"));
}

}  // namespace
}  // namespace lockstep
