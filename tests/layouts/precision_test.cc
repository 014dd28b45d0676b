// `lockstep diff` of drawn trainings that compute in other types than their tensors have, and of
// gradients that are 0 up to rounding: precision.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/layouts/forked_ranks.h"

namespace lockstep {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

int number_of_seeds(int otherwise) {
  const char* const asked = std::getenv("LOCKSTEP_TEST_SEEDS");
  return asked ? std::atoi(asked) : otherwise;
}

/// Trainings of some seeds on one process, each of which is compared with others of two ranks.
class Precision : public testing::Test {
 protected:
  /// `others`: "ddp-bf16-none". All of one kind.
  void train(int seeds, const std::string& kind, const std::vector<std::string>& others) {
    seeds_ = seeds;
    kind_ = kind;
    std::string one, two;
    for (int seed = 0; seed < seeds; ++seed) {
      one += fmt::format(" single-{}-none@{}", kind, seed);
      for (const std::string& other : others) two += fmt::format(" {}@{}", other, seed);
    }
    const std::string out = folder_.path().string();
    const Outcome outcome =
        run_forked_ranks("precision", fmt::format("1 {0}{1} -- 2 {0}{2}", out, one, two));
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }

  Outcome diff(std::string other, int seed) const {
    other.insert(other.find('-'), "2");
    return run_shell(fmt::format("cd {} && {} diff single1-{}-none@{} {}@{}",
                                 folder_.path().string(), LOCKSTEP_PROGRAM, kind_, seed, other,
                                 seed));
  }

  /// How many of the seeds are undecided. None may be different.
  int expect_healthy(const std::string& other) const {
    int undecided = 0;
    for (int seed = 0; seed < seeds_; ++seed) {
      const Outcome outcome = diff(other, seed);
      EXPECT_THAT(outcome.status, AnyOf(0, 2)) << other << "@" << seed << outcome.out;
      undecided += outcome.status == 2 ? 1 : 0;
    }
    fmt::print("{}: {} healthy pairs, {} undecided\n", other, seeds_, undecided);
    return undecided;
  }

  void expect_faults(const std::string& other) const {
    for (int seed = 0; seed < seeds_; ++seed) {
      const Outcome outcome = diff(other, seed);
      EXPECT_EQ(outcome.status, 1) << other << "@" << seed << outcome.out;
    }
    fmt::print("{}: {} faulty pairs\n", other, seeds_);
  }

  int seeds() const { return seeds_; }

 private:
  TemporaryFolder folder_;
  int seeds_ = 0;
  std::string kind_;
};

TEST_F(Precision, OfAutocastIsNoDifference) {
  const std::vector<std::string> others{"ddp-bf16-none", "fully_shard-bf16-none", "ddp-fp32-none"};
  train(number_of_seeds(1), "bf16", others);
  for (const std::string& other : others) expect_healthy(other);
  EXPECT_THAT(unwrapped(diff("ddp-fp32-none", 0).out),
              HasSubstr("configuration: differs: autocast cpu is bfloat16 in A and absent in B"));
}

TEST_F(Precision, OfAutocastHidesNoFault) {
  const std::vector<std::string> faults{
      "ddp-bf16-half",  "ddp-bf16-more",     "ddp-bf16-double",       "ddp-bf16-dropped",
      "ddp-bf16-layer", "ddp-bf16-permuted", "fully_shard-bf16-more", "fully_shard-bf16-dropped"};
  train(number_of_seeds(1), "bf16", faults);
  for (const std::string& fault : faults) expect_faults(fault);
}

TEST_F(Precision, OfCopiesInTheOptimizerIsNoDifference) {
  train(number_of_seeds(1), "masters",
        {"ddp-masters-none", "ddp-masters-more", "ddp-masters-layer"});
  expect_healthy("ddp-masters-none");
  expect_faults("ddp-masters-more");
  expect_faults("ddp-masters-layer");
  EXPECT_THAT(unwrapped(diff("ddp-masters-more", 0).out), HasSubstr("first that of first.weight"));
}

TEST_F(Precision, OfKeysWhoseBiasChangesNothingLeavesTheRestDecided) {
  const std::vector<std::string> others{"ddp-keys-none", "fully_shard-keys-none", "ddp-keys-key",
                                        "ddp-keys-permuted"};
  train(number_of_seeds(1), "keys", others);
  const int undecided = expect_healthy(others[0]) + expect_healthy(others[1]);
  EXPECT_LE(undecided, seeds() / 25) << "2 %";
  expect_faults("ddp-keys-key");
  expect_faults("ddp-keys-permuted");
  EXPECT_THAT(unwrapped(diff("ddp-keys-none", 0).out), HasSubstr("parameters carry no evidence"));
}

TEST_F(Precision, OfABiasThatIsFusedWithThatOfTheKeysIsNoDifference) {
  train(number_of_seeds(1), "fused", {"ddp-fused-none"});
  EXPECT_LE(expect_healthy("ddp-fused-none"), seeds() / 50);
}

}  // namespace
}  // namespace lockstep
