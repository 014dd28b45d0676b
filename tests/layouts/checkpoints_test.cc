// `lockstep diff` of checkpoints that torch wrote, and of the jobs that they are from:
// checkpoints.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>

#include "tests/command.h"
#include "tests/layouts/forked_ranks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// The checkpoints of all tests, written once.
class Saved {
 public:
  static const Saved& get() {
    static const Saved saved;
    return saved;
  }

  Outcome run(const std::string& line) const {
    return run_shell(fmt::format("cd {} && {}", folder_.path().string(), line));
  }

  Outcome diff(const std::string& arguments) const {
    return run(fmt::format("{} diff {}", LOCKSTEP_PROGRAM, arguments));
  }

 private:
  Saved() {
    const Outcome outcome = run_forked_ranks(
        "checkpoints", fmt::format("1 {0} train -- 2 {0} train -- 4 {0} train -- 1 {0} plant",
                                   folder_.path().string()));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }

  TemporaryFolder folder_;
};

/// Two sides, and what `diff` says of them.
struct ComparedCheckpoints {
  std::string name;  ///< of the test
  std::string sides;
  int status = 0;
  std::string said;
};

void PrintTo(const ComparedCheckpoints& compared, std::ostream* out) { *out << compared.name; }

class Checkpoints : public testing::TestWithParam<ComparedCheckpoints> {};

TEST_P(Checkpoints, AreComparedRightly) {
  const Outcome outcome = Saved::get().diff(GetParam().sides);
  EXPECT_EQ(outcome.status, GetParam().status) << outcome.out << outcome.err;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr(GetParam().said));
}

std::string name_of_checkpoints(const testing::TestParamInfo<ComparedCheckpoints>& tested) {
  return tested.param.name;
}

const std::string kSame = "equal, bit for bit: 8 weights";

INSTANTIATE_TEST_SUITE_P(
    Healthy, Checkpoints,
    testing::Values(
        ComparedCheckpoints{"of_one_process", "single1 single1.dcp", 0, kSame},
        ComparedCheckpoints{"of_shards", "fully_shard2 fully_shard2.dcp", 0, kSame},
        ComparedCheckpoints{"of_ddp", "ddp2 ddp2.safetensors", 0, kSame},
        ComparedCheckpoints{"before_the_job", "ddp2.safetensors ddp2", 0,
                            "6 steps (ddp2), its weights after step 6"},
        ComparedCheckpoints{"of_a_step", "--align A=3 ddp2 ddp2-step3.safetensors", 0, kSame},
        ComparedCheckpoints{"of_a_step_of_b", "--align B=3 ddp2-step3.safetensors ddp2", 0, kSame},
        ComparedCheckpoints{"resharded", "fully_shard2.dcp resharded.dcp", 0, kSame},
        ComparedCheckpoints{"in_another_format", "fully_shard2.dcp copy.safetensors", 0, kSame},
        ComparedCheckpoints{"rounded", "fully_shard2.dcp rounded.safetensors", 0,
                            "equal up to rounding: 8 weights"},
        ComparedCheckpoints{"of_another_layout",
                            "single1.dcp ddp2.safetensors --noise ddp4.safetensors", 0,
                            "equal up to rounding: 8 weights"},
        ComparedCheckpoints{"missing_as_said",
                            "copy.safetensors missing.safetensors --allow-missing", 0,
                            "only in A (1 of 8 parameters): norm.bias"}),
    name_of_checkpoints);

INSTANTIATE_TEST_SUITE_P(
    Faulty, Checkpoints,
    testing::Values(
        ComparedCheckpoints{"doubled", "fully_shard2.dcp doubled.safetensors", 1,
                            "DIFFERENT: 1 of 8 weights, head.weight: B is A times 2; relative "
                            "difference 0.5"},
        ComparedCheckpoints{"transposed", "fully_shard2 transposed.safetensors", 1,
                            "DIFFERENT: 1 of 8 weights, first.weight: shape [32, 8] in A and "
                            "[8, 32] in B"},
        ComparedCheckpoints{"missing", "copy.safetensors missing.safetensors", 1,
                            "DIFFERENT: 1 of 8 weights, norm.bias: there is none in B"},
        ComparedCheckpoints{"of_a_job_missing", "fully_shard2 missing.safetensors", 1,
                            "; 1 only in A: "},
        ComparedCheckpoints{"nan", "fully_shard2.dcp nan.safetensors", 1,
                            "second.bias: elements that are not finite: 0 in A, 1 in B"},
        ComparedCheckpoints{"swapped", "fully_shard2.dcp swapped.safetensors --expect same", 1,
                            "DIFFERENT: 1 of 8 weights, first.weight: ratio"},
        ComparedCheckpoints{"swapped_or_drifted", "fully_shard2.dcp swapped.safetensors", 2,
                            "UNDECIDED: 1 of 8 weights, first.weight: ratio"},
        ComparedCheckpoints{"swapped_next_to_noise",
                            "fully_shard2.dcp swapped.safetensors --noise single1", 1,
                            "DIFFERENT: 1 of 8 weights, first.weight"},
        ComparedCheckpoints{"swapped_next_to_a_copy",
                            "fully_shard2.dcp swapped.safetensors --noise copy.safetensors", 2,
                            "UNDECIDED: 1 of 8 weights, first.weight"},
        ComparedCheckpoints{"of_another_step", "ddp2 ddp2-step3.safetensors", 2,
                            "UNDECIDED: 8 of 8 weights, first first.weight"}),
    name_of_checkpoints);

TEST(FixOfACheckpoint, IsToldFromWhatIsNone) {
  const auto said = [](const std::string& sides, int status) {
    const Outcome outcome = Saved::get().diff("--expect fixed " + sides);
    EXPECT_EQ(outcome.status, status) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(said("fully_shard2 doubled.safetensors copy.safetensors", 0), HasSubstr("\nFIXED: "));
  EXPECT_THAT(said("fully_shard2 nan.safetensors doubled.safetensors", 1),
              HasSubstr("\nSTILL THERE: "));
  EXPECT_EQ(Saved::get().diff("--expect bug ddp2 doubled.safetensors").status, 0);
}

TEST(NamesInCheckpoints, AreMapped) {
  EXPECT_EQ(Saved::get().run("printf 'norm.bias other\\n' >map").status, 0);
  const Outcome outcome = Saved::get().diff("ddp2 ddp2.safetensors --map map");
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr("only in A (1 of 8 parameters): other"));
}

/// The command of the sentence does what it says.
TEST(SavedFile, IsRefusedWithTheCommandThatConvertsIt) {
  const Outcome refused = Saved::get().diff("fully_shard2.dcp whole.pt");
  EXPECT_EQ(refused.status, 64);
  const std::size_t begin = refused.err.find("`python ") + 8;
  const std::size_t end = refused.err.find('`', begin);
  ASSERT_NE(end, std::string::npos) << refused.err;
  const Outcome converted =
      Saved::get().run(LOCKSTEP_PYTHON " " + refused.err.substr(begin, end - begin));
  EXPECT_EQ(converted.status, 0) << converted.err;
  const Outcome outcome = Saved::get().diff("fully_shard2.dcp whole.dcp");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(unwrapped(outcome.out), HasSubstr(kSame));
}

TEST(WrongDiffOfCheckpoints, IsRefusedWithASentence) {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = Saved::get().diff(arguments);
    EXPECT_EQ(outcome.status, 64) << arguments << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(refused("--align A=3 copy.safetensors ddp2"), HasSubstr("which is a checkpoint"));
  EXPECT_THAT(refused("--align A=99 ddp2 copy.safetensors"), HasSubstr("observed, 1 to 6"));
  EXPECT_THAT(refused("--align A=3 ddp2 single1"), HasSubstr("A=100,B=1"));
  EXPECT_THAT(refused("--align A=3,A=4 ddp2 copy.safetensors"), HasSubstr("A=100,B=1"));
  EXPECT_THAT(refused("--allow-missing ddp2 single1"), HasSubstr("both sides are jobs"));
  EXPECT_THAT(refused("--until 3 ddp2 copy.safetensors"), HasSubstr("--align names the step"));
  EXPECT_THAT(refused("--noise copy.safetensors ddp2 single1"), HasSubstr("as both sides are"));
  EXPECT_THAT(refused("--expect same --noise ddp2 ddp2 copy.safetensors"),
              HasSubstr("nothing next to --expect same"));
}

}  // namespace
}  // namespace lockstep
