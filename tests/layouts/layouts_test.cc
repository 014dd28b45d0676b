// `lockstep diff` of the same training in several layouts: layouts.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/layouts/forked_ranks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

/// A number of ranks, and the cases that they train.
struct World {
  int ranks = 1;
  std::string cases;
};

/// One world after the other.
Outcome train(const fs::path& out, const std::vector<World>& worlds) {
  std::string arguments;
  for (const World& world : worlds) {
    arguments += fmt::format("{}{} {} {}", arguments.empty() ? "" : " -- ", world.ranks,
                             out.string(), world.cases);
  }
  return run_forked_ranks("layouts", arguments);
}

/// The trainings of all tests, run once.
class Trainings {
 public:
  static const Trainings& get() {
    static const Trainings trainings;
    return trainings;
  }

  Outcome diff(const std::string& arguments) const {
    return run_shell(
        fmt::format("cd {} && {} diff {}", folder_.path().string(), LOCKSTEP_PROGRAM, arguments));
  }

  fs::path folder() const { return folder_.path(); }

 private:
  Trainings() {
    const Outcome outcome = train(
        folder_.path(),
        {{1,
          "single single-nudged single-rate single-sum single-accumulated single-tokens "
          "single-clip single-orthogonal single-chaotic single@1 single-faster single-loop "
          "single-fused single-adamw single-adamw-loop single-adamw-each single-adamw-fused "
          "single-adamw-eps single-adamw-decay single-stored"},
         {2,
          "ddp ddp-summed ddp-group ddp-tiles ddp-late ddp-clip ddp-tokens ddp-stale ddp-blind "
          "ddp-chaotic ddp-frozen ddp-bypass ddp-faster ddp-adamw ddp-adamw-faster "
          "ddp-adamw-squares ddp-adamw-steps ddp-momentum ddp-stored fully_shard fully_shard-adamw "
          "fully_shard-summed "
          "fully_shard-orthogonal tp tp-twice pipeline pipeline-half sp sp-local gpipe 1f1b"},
         {4, "ddp ddp-divided ddp-chaotic fully_shard hybrid hybrid-of-copies tp"}});
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }

  TemporaryFolder folder_;
};

/// Two runs and what `diff` says of them.
struct Compared {
  std::string name;  ///< of the test
  std::string runs;
  int status = 0;
  std::string said;
};

void PrintTo(const Compared& compared, std::ostream* out) { *out << compared.name; }

const std::string kEqual = "equal up to rounding in 6 steps, 1 to 6";

class Layouts : public testing::TestWithParam<Compared> {};

TEST_P(Layouts, AreComparedRightly) {
  const Outcome outcome = Trainings::get().diff(GetParam().runs);
  EXPECT_EQ(outcome.status, GetParam().status) << outcome.out << outcome.err;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr(GetParam().said));
}

std::string name_of_comparison(const testing::TestParamInfo<Compared>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Healthy, Layouts,
    testing::Values(
        Compared{"ddp", "single1 ddp2", 0, kEqual},
        Compared{"ddp_of_four", "single1 ddp4", 0, kEqual},
        Compared{"fully_shard", "single1 fully_shard2", 0, kEqual},
        Compared{"fully_shard_of_four", "single1 fully_shard4", 0, kEqual},
        Compared{"shards_and_copies", "single1 hybrid4", 0, kEqual},
        Compared{"tensor_parallel", "single1 tp2", 0, kEqual},
        Compared{"tensor_parallel_of_four", "single1 tp4", 0, kEqual},
        Compared{"sequence_parallel", "single1 sp2", 0, kEqual},
        Compared{"gpipe", "single1 gpipe2", 0, kEqual},
        Compared{"one_forward_one_backward", "single1 1f1b2", 0, kEqual},
        Compared{"pipeline", "single1 pipeline2", 0, "equal, bit for bit, in 6 steps, 1 to 6"},
        Compared{"two_layouts", "fully_shard4 tp2", 0, kEqual},
        Compared{"without_data", "single1 ddp2-blind", 0,
                 "samples: unknown: watch both with --data"},
        Compared{"adamw", "single1-adamw ddp2-adamw", 0, kEqual},
        Compared{"kernels", "single1-loop single1-fused", 0, kEqual},
        Compared{"kernels_of_adamw", "single1-adamw-loop single1-adamw-fused", 0, kEqual},
        Compared{"more_kernels_of_adamw", "single1-adamw-each single1-adamw-fused", 0, kEqual},
        Compared{"itself", "tp2 tp2", 0, "equal, bit for bit, in 6 steps, 1 to 6"}),
    name_of_comparison);

INSTANTIATE_TEST_SUITE_P(
    Faulty, Layouts,
    testing::Values(
        Compared{"summed", "single1 ddp2-summed", 1,
                 "DIFFERENT: all 8 gradients differ in step 1, first that of first.weight: B is A "
                 "times 2: summed over 2 ranks, never averaged"},
        Compared{"divided_twice", "single1 ddp4-divided", 1,
                 "B is A times 1/4: averaged twice over 4 ranks"},
        Compared{"normaliser_of_the_wrong_group", "single1 ddp2-group", 1,
                 "B is A times 1/2: averaged twice over 2 ranks"},
        Compared{"tiles_added_up", "single1 ddp2-tiles", 1,
                 "B is A times 4: summed over the 4 samples of a pass, or counted 4 times"},
        Compared{"micro_batches_added_up", "single1 single1-accumulated", 1,
                 "B is A times 4: summed over the 4 micro-batches, or counted 4 times"},
        Compared{"samples_added_up", "single1 single1-sum", 1,
                 "B is A times 8: summed over the 8 samples of a pass, or counted 8 times"},
        Compared{"from_a_later_step_on", "single1 ddp2-late", 1,
                 "differ in step 3, first that of first.weight: B is A times 2"},
        Compared{"clipped_by_local_norm", "single1-clip ddp2-clip", 1,
                 "all 8 gradients differ in step 1, first that of first.weight: ratio 0.8"},
        Compared{"mean_of_means", "single1-tokens ddp2-tokens", 1,
                 "all 8 gradients differ in step 1, first that of first.weight: ratio 0.8"},
        Compared{"stale_parameters", "single1 ddp2-stale", 1,
                 "all 8 gradients differ in step 3, most that of first.bias: ratio"},
        Compared{"summed_shards", "single1 fully_shard2-summed", 1,
                 "B is A times 2: summed over 2"},
        Compared{"summed_over_copies", "single1 hybrid4-of-copies", 1,
                 "B is A times 2: summed over the 2 ranks of mesh_copies"},
        Compared{"never_synchronised", "single1 ddp2-bypass", 1,
                 "DIFFERENT: all 8 updates differ in step 1, first that of first.weight on rank"},
        Compared{"never_synchronised_without_samples", "ddp2-blind ddp2-bypass", 1,
                 "ranks 0 and 1 hold different values of it; "},
        Compared{"optimizer_of_whole_matrices", "single1-orthogonal fully_shard2-orthogonal", 1,
                 "3 of 8 updates differ in step 1, most that of second.weight: ratio"},
        Compared{"part_of_tensor_parallel", "single1 tp2-twice", 1,
                 "1 of 8 gradients differ in step 1, first that of head.weight: B is A times 2"},
        Compared{"gradient_between_stages", "single1 pipeline2-half", 1,
                 "4 of 8 gradients differ in step 1, first that of first.weight: B is A times 1/2"},
        Compared{"frozen_parameter", "single1 ddp2-frozen", 1,
                 "1 of 8 gradients differ in step 1, first that of norm.bias: there is none in B"},
        Compared{"update_of_the_second_step", "single1 single1-rate", 1,
                 "all 8 updates differ in step 2, first that of first.weight: B is A times 2: "},
        Compared{
            "learning_rate", "single1 single1-faster", 1,
            "all 8 updates differ in step 1, first that of first.weight: B is A times 1.01: as "
            "by a learning rate times 1.01"},
        // With the kernels of some processors, one of 8 is no further apart than rounding.
        Compared{"learning_rate_on_two_ranks", "single1 ddp2-faster", 1,
                 "updates differ in step 1, first that of first.weight: B is A times 1.01: "},
        Compared{"learning_rate_of_adamw", "single1-adamw ddp2-adamw-faster", 1,
                 "updates differ in step 1, first that of first.weight: B is A times 1.01: "},
        Compared{"epsilon", "single1-adamw single1-adamw-eps", 1, " updates differ in step 1,"},
        Compared{
            "decay_that_shows_too_little", "single1-adamw single1-adamw-decay", 2,
            "UNDECIDED: equal up to rounding in 6 steps, 1 to 6, but weight_decay is 0.01 in A "
            "and 0.01005 in B"},
        Compared{"update_of_an_undecided_gradient", "single1 single1-nudged --until 1", 2,
                 "UNDECIDED: step 1: the gradient of first.weight: ratio 1"},
        Compared{"other_model", "single1 single1@1", 2,
                 "VOID: the initial weights are not the same"}),
    name_of_comparison);

TEST(ChaoticTraining, IsNeverCalledDifferent) {
  const Outcome alone = Trainings::get().diff("single1-chaotic ddp2-chaotic");
  EXPECT_EQ(alone.status, 2) << alone.out;
  EXPECT_THAT(unwrapped(alone.out), HasSubstr("rounding may have become as large as a fault"));
  const Outcome by_noise =
      Trainings::get().diff("single1-chaotic ddp2-chaotic --noise ddp4-chaotic");
  EXPECT_THAT(by_noise.status, AnyOf(0, 2)) << by_noise.out;
  EXPECT_EQ(Trainings::get().diff("single1-chaotic ddp2-chaotic --until 3").status, 0);
}

TEST(Fix, IsToldFromWhatIsNone) {
  const auto said = [](const std::string& runs, int status) {
    const Outcome outcome = Trainings::get().diff("--expect fixed " + runs);
    EXPECT_EQ(outcome.status, status) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(said("single1 ddp2-summed ddp2", 0), HasSubstr("\nFIXED: "));
  EXPECT_THAT(said("single1 ddp2-summed ddp2-group", 1), HasSubstr("\nSTILL THERE: "));
  EXPECT_THAT(said("single1 ddp2 ddp2-group", 1), HasSubstr("\nNEW: "));
  EXPECT_THAT(said("single1 ddp2 fully_shard2", 1), HasSubstr("\nNOT SHOWN BEFORE THE FIX: "));
  EXPECT_EQ(Trainings::get().diff("--expect bug single1 ddp2-late").status, 0);
  EXPECT_EQ(Trainings::get().diff("--expect bug single1 ddp2").status, 1);
}

/// What an optimizer keeps is compared where both sides observed it, across layouts.
TEST(OptimizerStates, AreComparedBeforeTheirNextUpdate) {
  const auto said = [](const std::string& runs, int status) {
    const Outcome outcome = Trainings::get().diff(runs);
    EXPECT_EQ(outcome.status, status) << outcome.out;
    return unwrapped(outcome.out);
  };
  EXPECT_THAT(said("single1-adamw ddp2-adamw-squares", 1),
              HasSubstr("DIFFERENT: 1 of 24 optimizer states differ in step 3, first that of "
                        "first.weight: exp_avg_sq: B is A times 3/2"));
  EXPECT_THAT(said("fully_shard2-adamw ddp2-adamw-steps", 1),
              HasSubstr("1 of 24 optimizer states differ in step 3, first that of first.weight: "
                        "step: B is A times 2"));
  EXPECT_THAT(said("single1 ddp2-momentum", 1),
              HasSubstr("1 of 8 optimizer states differ in step 3, first that of first.weight: "
                        "momentum_buffer: B is A times 3/4"));
  EXPECT_THAT(said("single1-adamw fully_shard2-adamw", 0), HasSubstr(kEqual));
  EXPECT_THAT(said("single1-adamw fully_shard2-adamw --format json", 0),
              HasSubstr("optimizer_state"));
}

/// With the values of both sides nothing is estimated.
TEST(StoredValues, AreComparedExactly) {
  const Outcome exact = Trainings::get().diff("single1-stored ddp2-stored");
  EXPECT_EQ(exact.status, 1) << exact.out;
  EXPECT_THAT(unwrapped(exact.out), HasSubstr("1 of 8 gradients differ in step 2, first that of "
                                              "second.weight: ratio 1."));
  EXPECT_THAT(exact.out, Not(HasSubstr("±")));
  const Outcome estimated = Trainings::get().diff("single1 ddp2-stored");
  EXPECT_EQ(estimated.status, 1) << estimated.out;
  EXPECT_THAT(estimated.out, HasSubstr("±"));
  const fs::path job = Trainings::get().folder() / "ddp2-stored/job";
  EXPECT_TRUE(fs::exists(job / "rank-1.step-2.safetensors"));
  EXPECT_FALSE(fs::exists(job / "rank-1.step-3.safetensors"));
}

/// Not up to rounding, and however far trainings have drifted apart.
TEST(SameValues, HaveTheSameBits) {
  const fs::path folder = Trainings::get().folder();
  fs::copy(folder / "ddp2", folder / "same", fs::copy_options::recursive);
  const Outcome same = Trainings::get().diff("--expect same ddp2 same");
  EXPECT_EQ(same.status, 0) << same.out;
  EXPECT_THAT(unwrapped(same.out), HasSubstr("equal, bit for bit"));
  for (const char* const pair : {"single1 ddp2", "single1-chaotic ddp2-chaotic"}) {
    const Outcome other = Trainings::get().diff(fmt::format("--expect same {}", pair));
    EXPECT_EQ(other.status, 1) << other.out;
    EXPECT_THAT(unwrapped(other.out), HasSubstr("gradients differ in step 1"));
  }
}

TEST(UnknownSamples, LeaveADifferenceThatIsNoMultipleOpen) {
  const fs::path folder = Trainings::get().folder();
  EXPECT_EQ(train(folder / "blind", {{2, "ddp-blind"}}).status, 0);
  const Outcome outcome = Trainings::get().diff("ddp2-blind ddp2-stale");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr("other samples would look the same"));
  const Outcome alone = Trainings::get().diff("ddp2-blind ddp2-stored");
  EXPECT_EQ(alone.status, 1) << "other samples would change all gradients: " << alone.out;
  EXPECT_THAT(unwrapped(alone.out), HasSubstr("DIFFERENT: 1 of 8 gradients differ in step 2"));
}

TEST(OtherNames, AreMappedOrListed) {
  const fs::path folder = Trainings::get().folder();
  write_text(folder / "map", "first.weight renamed  # gone\n\n");
  const Outcome outcome = Trainings::get().diff("single1 ddp2 --map map");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr("only in A (1 of 8 parameters): renamed"));
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr("only 7 of 8 parameters are on both sides"));
  write_text(folder / "all",
             "first.weight a\nfirst.bias b\nnorm.weight c\nnorm.bias d\n"
             "second.weight e\nsecond.bias f\nhead.weight g\nhead.bias h\n");
  EXPECT_EQ(Trainings::get().diff("single1 ddp2 --map all").status, 3);
}

TEST(WrongDiff, IsRefusedWithASentence) {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = Trainings::get().diff(arguments);
    EXPECT_EQ(outcome.status, 64) << arguments << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(refused("single1"), HasSubstr("1 runs"));
  EXPECT_THAT(refused("single1 nowhere"), HasSubstr("nowhere"));
  EXPECT_THAT(refused("single1 ddp2 tp2"), HasSubstr("3 runs"));
  EXPECT_THAT(refused("--expect fixed single1 ddp2"), HasSubstr("three with --expect fixed"));
  EXPECT_THAT(refused("--expect gone single1 ddp2"), HasSubstr("hangs, fixed or same"));
  EXPECT_THAT(refused("--align 3 single1 ddp2"), HasSubstr("A=100,B=1"));
  EXPECT_THAT(refused("--until x single1 ddp2"), HasSubstr("'x'"));
  EXPECT_THAT(refused("--map nowhere single1 ddp2"), HasSubstr("nowhere"));
  EXPECT_THAT(refused("--format tex single1 ddp2"), HasSubstr("console, csv, github, html, json"));
  EXPECT_THAT(refused("--format html,json single1 ddp2"), HasSubstr("several with --out DIR"));
  write_text(Trainings::get().folder() / "half", "first.weight\n");
  EXPECT_THAT(refused("--map half single1 ddp2"), HasSubstr("an old name and a new one"));
  write_text(Trainings::get().folder() / "twice", "first.weight a\nhead.weight a\n");
  EXPECT_THAT(refused("--map twice single1 ddp2"), HasSubstr("found 'a'"));
  fs::create_directory(Trainings::get().folder() / "empty");
  EXPECT_THAT(refused("single1 empty"), HasSubstr("empty"));
}

TEST(ChangedFiles, AreRefused) {
  const fs::path folder = Trainings::get().folder();
  fs::copy(folder / "ddp2", folder / "changed", fs::copy_options::recursive);
  const fs::path sketches = folder / "changed/job/rank-1.sketches";
  std::string bytes = text_of(sketches);
  bytes.back() ^= 1;
  write_text(sketches, bytes);
  const Outcome outcome = Trainings::get().diff("single1 changed");
  EXPECT_EQ(outcome.status, 64) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("rank-1.sketches was changed"));
}

TEST(AlignedSteps, AreComparedWithEachOther) {
  // Other weights and samples in each step.
  const Outcome outcome = Trainings::get().diff("single1 ddp2 --align A=1,B=2");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.out),
              HasSubstr("samples: B saw in its step 2 the samples of A's step 2"));
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr("VOID: the initial weights are not the same"));
}

int number_of_seeds() {
  const char* const asked = std::getenv("LOCKSTEP_TEST_SEEDS");
  return asked ? std::atoi(asked) : 2;
}

std::string cases_of(const std::string& layout) {
  std::string all;
  for (int seed = 0; seed < number_of_seeds(); ++seed) all += fmt::format("{}@{} ", layout, seed);
  return all;
}

/// Pairs of trainings, drawn. LOCKSTEP_TEST_SEEDS: how many of each layout.
class RandomLayouts : public testing::Test {
 protected:
  Outcome diff(const std::string& other, int seed) const {
    return run_shell(fmt::format("cd {} && {} diff single1@{} {}@{}", folder_.path().string(),
                                 LOCKSTEP_PROGRAM, seed, other, seed));
  }
  Outcome train(const std::vector<World>& worlds) const {
    return lockstep::train(folder_.path(), worlds);
  }
  /// Compares a resumed training with the one that went straight on. The drawn step, from 1 to 6,
  /// is in the names of no file, so all are tried: weights of other steps are void.
  Outcome resumed(const std::string& run, int seed) const {
    Outcome outcome;
    for (int step = 3; step <= 8; ++step) {
      outcome =
          run_shell(fmt::format("cd {} && {} diff --align A={},B=1 straight2@{} {}@{}",
                                folder_.path().string(), LOCKSTEP_PROGRAM, step, seed, run, seed));
      if (outcome.out.find("initial weights: equal, bit for bit") < outcome.out.npos) break;
    }
    return outcome;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(RandomLayouts, AreEqualUpToRounding) {
  const std::vector<std::string> layouts{"ddp", "fully_shard", "tp", "pipeline"};
  std::string others;
  for (const std::string& layout : layouts) others += cases_of(layout);
  ASSERT_EQ(train({{1, cases_of("single")}, {2, others}}).status, 0);
  int found = 0, undecided = 0;
  for (int seed = 0; seed < number_of_seeds(); ++seed) {
    for (const std::string& layout : layouts) {
      const Outcome outcome = diff(layout + "2", seed);
      if (outcome.status == 1) ++found;
      if (outcome.status == 2) ++undecided;
      EXPECT_THAT(outcome.status, AnyOf(0, 2)) << outcome.out << outcome.err;
    }
  }
  fmt::print("random layouts: {} pairs, {} findings, {} undecided\n", 4 * number_of_seeds(), found,
             undecided);
  EXPECT_LE(undecided, 4 * number_of_seeds() / 5);
}

TEST_F(RandomLayouts, DifferFromTheStepOfAFaultOn) {
  const Outcome trained = train({{1, cases_of("single")}, {2, cases_of("ddp-drawn")}});
  ASSERT_EQ(trained.status, 0) << trained.err;
  int missed = 0;
  for (int seed = 0; seed < number_of_seeds(); ++seed) {
    const auto line = trained.out.find(fmt::format("{}: step ", seed));
    ASSERT_LT(line, trained.out.npos);
    const int step = std::stoi(trained.out.substr(trained.out.find("step ", line) + 5));
    const Outcome outcome = diff("ddp2-drawn", seed);
    const bool is_found =
        outcome.status == 1 &&
        outcome.out.find(fmt::format("gradients differ in step {},", step)) < outcome.out.npos;
    if (!is_found) ++missed;
    EXPECT_TRUE(is_found) << "seed " << seed << ", step " << step << ": " << outcome.out;
  }
  fmt::print("random faults: {} pairs, {} missed\n", number_of_seeds(), missed);
}

/// Torch's sequence parallelism and pipelines, which have no verdict between ranks for part of
/// their tensors.
TEST_F(RandomLayouts, OfSequenceParallelismAndPipelinesAreDecided) {
  const std::vector<std::string> layouts{"sp", "gpipe", "1f1b"};
  std::string others;
  for (const std::string& layout : layouts) {
    others += cases_of(layout) + cases_of(layout + "-drawn");
  }
  const Outcome trained = train({{1, cases_of("single")}, {2, others}});
  ASSERT_EQ(trained.status, 0) << trained.err;
  int alarms = 0, undecided = 0, missed = 0;
  for (int seed = 0; seed < number_of_seeds(); ++seed) {
    for (const std::string& layout : layouts) {
      const Outcome healthy = diff(layout + "2", seed), faulty = diff(layout + "2-drawn", seed);
      if (healthy.status == 1) ++alarms;
      if (healthy.status != 0) ++undecided;
      if (faulty.status != 1) ++missed;
      EXPECT_THAT(healthy.status, AnyOf(0, 2)) << healthy.out << healthy.err;
      EXPECT_EQ(faulty.status, 1) << layout << " " << seed << faulty.out << faulty.err;
    }
  }
  fmt::print(
      "sequence parallelism and pipelines: {} healthy, {} false alarms, {} undecided; {} "
      "faulty, {} missed\n",
      3 * number_of_seeds(), alarms, undecided - alarms, 3 * number_of_seeds(), missed);
}

TEST_F(RandomLayouts, AreResumedAsTheyWere) {
  const std::vector<std::string> faults{"moments", "rate", "data", "generators"};
  std::string others = cases_of("straight") + cases_of("resumed");
  for (const std::string& fault : faults) others += cases_of("resumed-" + fault);
  const Outcome trained = train({{2, others}});
  ASSERT_EQ(trained.status, 0) << trained.err;
  int alarms = 0, missed = 0;
  for (int seed = 0; seed < number_of_seeds(); ++seed) {
    const auto compared = [&](const std::string& run) { return resumed(run, seed); };
    const Outcome healthy = compared("resumed2");
    if (healthy.status != 0) ++alarms;
    EXPECT_EQ(healthy.status, 0) << healthy.out << healthy.err;
    EXPECT_THAT(unwrapped(healthy.out), HasSubstr("equal, bit for bit, in "));
    for (const std::string& fault : faults) {
      const Outcome faulty = compared("resumed2-" + fault);
      if (faulty.status != 1) ++missed;
      EXPECT_EQ(faulty.status, 1) << fault << " " << seed << faulty.out << faulty.err;
      const std::string said = fault == "data" ? "B saw in its step 1 the samples of A's step"
                               : fault == "generators" ? "gradients differ in step"
                                                       : "updates differ in step";
      EXPECT_THAT(unwrapped(faulty.out), HasSubstr(said));
    }
  }
  fmt::print("resumes: {} healthy, {} false alarms; {} faulty, {} missed\n", number_of_seeds(),
             alarms, 4 * number_of_seeds(), missed);
}

}  // namespace
}  // namespace lockstep
