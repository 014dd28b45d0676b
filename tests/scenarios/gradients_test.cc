// Wrong gradients must be named in every dtype, whatever their share of the step. Healthy trainings
// of any kind must give no finding.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/scenarios/seeds.h"
#include "tests/scenarios/testbed_run.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int kTensors = 31;  // of the testbed's transformer

/// The verdict of the claim about the gradients' values, tensor by tensor.
std::map<std::string, int> verdicts_of(const TestbedRun& run) {
  std::map<std::string, int> verdicts;
  for (const json& cell : run.record().at("cells")) {
    for (const json& result : cell.at("results")) {
      const json& claim = result.at("claim");
      const bool is_it =
          claim.at("predicate") == "equal_reference" && claim.at("kind") == "gradient";
      if (is_it && cell.at("cell").at("role") == "buggy") ++verdicts[result.at("verdict")];
    }
  }
  return verdicts;
}

TEST(GradientFaults, OfEachTensorAreFoundInBfloat16) {
  const TestbedRun run(
      "gradient-faults/zeroed --ranks 2 --steps 1 --matrix --set dtype=bfloat16 "
      "--set optimizer=sgd");
  EXPECT_EQ(verdicts_of(run), (std::map<std::string, int>{{"violated", kTensors}}));
}

TEST(GradientFaults, OfEveryKindAreFoundInEveryDType) {
  for (const char* dtype : {"float32", "float64", "float16", "bfloat16"}) {
    const TestbedRun run(
        fmt::format("gradient-faults --ranks 3 --steps 1 --set dtype={} --set tensor=5", dtype));
    EXPECT_EQ(verdicts_of(run), (std::map<std::string, int>{{"violated", 5}})) << dtype;
    EXPECT_EQ(run.cell("healthy").at("verdict"), "as expected") << dtype;
  }
}

/// Findings about a training.
struct Judged {
  bool is_violated = false;
  bool is_undecided = false;
  std::string text;
};

Judged judged(const std::string& arguments, const std::string& variant) {
  const TestbedRun run(fmt::format("random-training/{} {}", variant, arguments));
  Judged judged{false, false, run.outcome().out + run.outcome().err};
  const json cell = run.cell(variant);
  for (const json& result : cell.at("results")) {
    judged.is_violated = judged.is_violated || result.at("verdict") == "violated";
    judged.is_undecided = judged.is_undecided || result.at("verdict") == "undecided";
  }
  return judged;
}

TEST(RandomTrainings, ThatAreHealthyAreNeverViolatedAndSeldomUndecided) {
  int undecided = 0;
  const std::vector<int> all = seeds(12);
  for (const int seed : all) {
    const Judged training =
        judged(fmt::format("--seed {} --ranks {} --steps {}", seed, 2 + seed % 3, 1 + seed % 12),
               "healthy");
    EXPECT_FALSE(training.is_violated) << training.text;
    undecided += training.is_undecided ? 1 : 0;
  }
  EXPECT_LE(undecided * 20, static_cast<int>(all.size()));
}

TEST(RandomTrainings, ThatAmplifyRoundingsAreUndecidedAndBlameNobody) {
  const Judged training = judged("--ranks 3 --steps 6", "unstable");
  EXPECT_FALSE(training.is_violated) << training.text;
  EXPECT_TRUE(training.is_undecided) << training.text;
  EXPECT_THAT(training.text, HasSubstr("the reference is not stable here"));
}

}  // namespace
}  // namespace lockstep
