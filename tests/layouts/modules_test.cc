// `lockstep diff` of trainings whose modules were observed: modules.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/layouts/forked_ranks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// The trainings of all tests, run once.
class ModuleTrainings {
 public:
  static const ModuleTrainings& get() {
    static const ModuleTrainings trainings;
    return trainings;
  }

  Outcome lockstep(const std::string& arguments) const {
    return run_shell(
        fmt::format("cd {} && {} {}", folder_.path().string(), LOCKSTEP_PROGRAM, arguments));
  }

 private:
  ModuleTrainings() {
    const Outcome outcome = run_forked_ranks(
        "modules",
        fmt::format("1 {0} single single-scaled single-double single-metric single-loss "
                    "single-fused single-checkpoint single-reentrant single-micro "
                    "single-unwatched single-blind single-blind_metric single-norm "
                    "-- 2 {0} ddp ddp-scaled ddp-double ddp-summed ddp-swapped ddp-micro "
                    "ddp-metric ddp-infinite ddp-norm fully_shard tp",
                    folder_.path().string()));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("no longer observed")));
  }

  TemporaryFolder folder_;
};

/// Two runs and what `diff` says of them.
struct ComparedModules {
  std::string name;  ///< of the test
  std::string runs;
  int status = 0;
  std::vector<std::string> said;
};

void PrintTo(const ComparedModules& compared, std::ostream* out) { *out << compared.name; }

class Modules : public testing::TestWithParam<ComparedModules> {};

TEST_P(Modules, AreComparedRightly) {
  const Outcome outcome = ModuleTrainings::get().lockstep("diff " + GetParam().runs);
  EXPECT_EQ(outcome.status, GetParam().status) << outcome.out << outcome.err;
  for (const std::string& said : GetParam().said) {
    EXPECT_THAT(unwrapped(outcome.out), HasSubstr(said));
  }
  if (GetParam().status > 0) return;
  const bool is_told = GetParam().said.front().starts_with("Gradients") ||
                       GetParam().said.front().starts_with("Outputs");
  EXPECT_EQ(unwrapped(outcome.out).find("which decides nothing: first") < std::string::npos,
            is_told);
}

std::string name_of_modules(const testing::TestParamInfo<ComparedModules>& info) {
  return info.param.name;
}

const std::string kAllByRank = "modules: 34 outputs and the gradients at 30 of them, rank by rank";
const std::string kSameBits = "equal, bit for bit, in 3 steps, 1 to 3";
const std::string kRounded = "equal up to rounding in 3 steps, 1 to 3";

INSTANTIATE_TEST_SUITE_P(
    Healthy, Modules,
    testing::Values(
        ComparedModules{"another_kernel", "single1 single1-fused", 0, {kRounded, kAllByRank}},
        ComparedModules{"checkpoint", "single1 single1-checkpoint", 0, {kSameBits, kAllByRank}},
        ComparedModules{
            "reentrant_checkpoint", "single1 single1-reentrant", 0, {kSameBits, kAllByRank}},
        ComparedModules{"ranks", "single1 ddp2", 0, {kRounded, "the norms of 34 outputs over the"}},
        ComparedModules{"micro_batches",
                        "single1 single1-micro",
                        0,
                        {kRounded, "the norms of 34 outputs over the whole batch"}},
        ComparedModules{"micro_batches_of_ranks",
                        "single1 ddp2-micro",
                        0,
                        {kRounded, "the norms of 34 outputs over the whole batch"}},
        ComparedModules{"other_samplers",
                        "ddp2 ddp2-swapped",
                        0,
                        {kSameBits, "the norms of 34 outputs over the whole batch"}},
        ComparedModules{"fully_shard", "ddp2 fully_shard2", 0, {kSameBits, kAllByRank}},
        ComparedModules{"fully_shard_alone",
                        "single1 fully_shard2",
                        0,
                        {kRounded, "the norms of 34 outputs over the whole batch"}},
        // The norms of parallel layers add up, and partial sums have none.
        ComparedModules{"tensor_parallel",
                        "single1 tp2",
                        0,
                        {kRounded, "the norms of 28 outputs",
                         "6 not comparable, such as blocks.0.mlp.2: a partial sum over"}},
        ComparedModules{"one_side",
                        "single1 single1-unwatched",
                        0,
                        {kSameBits, "modules: only A was watched with --modules"}},
        ComparedModules{"no_side", "single1-unwatched single1-unwatched", 0, {kSameBits}}),
    name_of_modules);

INSTANTIATE_TEST_SUITE_P(
    Faulty, Modules,
    testing::Values(
        ComparedModules{"output_scaled",
                        "single1 single1-scaled",
                        1,
                        {"DIFFERENT: all 34 gradients differ in step 1",
                         "First module that differs: blocks.1.attn, after blocks.1.attn.proj, "
                         "which agrees: ratio 1.01, cosine 1; "}},
        ComparedModules{"output_scaled_on_ranks",
                        "ddp2 ddp2-scaled",
                        1,
                        {"First module that differs: blocks.1.attn on ranks 0,1, after "
                         "blocks.1.attn.proj, which agrees: ratio 1.01, cosine 1; "}},
        ComparedModules{"output_scaled_by_norms",
                        "single1 ddp2-scaled",
                        1,
                        {"First module whose output has another norm over the whole batch: "
                         "blocks.1.attn, after blocks.1.attn.proj, which agrees: ratio 1.01; "}},
        ComparedModules{"gradient_doubled",
                        "single1 single1-double",
                        1,
                        {"DIFFERENT: 18 of 34 gradients differ in step 1",
                         "All 34 outputs of modules agree; the first gradient that differs arrives "
                         "at the output of blocks.1.attn.proj, after blocks.1.drop, which agrees: "
                         "B is A times 2: "}},
        ComparedModules{"gradient_doubled_on_ranks",
                        "ddp2 ddp2-double",
                        1,
                        {"arrives at the output of blocks.1.attn.proj on ranks 0,1, after "
                         "blocks.1.drop, which agrees: B is A times 2: "}},
        ComparedModules{"gradients_of_parameters_alone",
                        "ddp2 ddp2-summed",
                        1,
                        {"B is A times 2: summed over 2 ranks, never averaged",
                         "All 34 outputs of modules agree; all 30 gradients that arrive at them "
                         "agree"}},
        ComparedModules{"gradients_of_the_parameters_of_one_module",
                        "single1 single1-norm",
                        1,
                        {"all 30 gradients that arrive at them agree: of 17 modules, blocks.1.norm "
                         "alone has parameters that differ"}},
        ComparedModules{"gradients_of_the_parameters_of_one_module_on_ranks",
                        "ddp2 ddp2-norm",
                        1,
                        {"all 30 gradients that arrive at them agree: of 17 modules, blocks.1.norm "
                         "alone has parameters that differ"}},
        ComparedModules{"gradients_of_parameters_alone_by_norms",
                        "single1 ddp2-summed",
                        1,
                        {"All 34 norms of outputs of modules agree"}},
        ComparedModules{"output_that_nothing_uses",
                        "ddp2 ddp2-metric",
                        1,
                        {"DIFFERENT: 1 of 34 outputs of modules differ in step 1, though gradients "
                         "and updates do not, first that of metric on ranks 0,1, after blocks.2, "
                         "which agrees: ratio 1.01"}},
        ComparedModules{"samples_unknown",
                        "single1-blind single1-blind_metric",
                        0,
                        {"Outputs of modules differ in step 1, which decides nothing: first "
                         "metric, after blocks.2, which agrees: ratio 1.01"}},
        ComparedModules{"loss_scaled_and_unscaled",
                        "single1 single1-loss",
                        0,
                        {"Gradients that arrive at outputs of modules differ, as with another "
                         "scale of the loss, in step 1, which decides nothing: first head: B is A "
                         "times 4"}}),
    name_of_modules);

TEST(ObservedModules, ArePartOfTheJsonAndOfTheReport) {
  const Outcome outcome =
      ModuleTrainings::get().lockstep("diff --format json single1 single1-scaled");
  const nlohmann::json pair =
      nlohmann::json::parse(outcome.out).at("comparisons").at(0).at("pairs").at(0);
  const nlohmann::json& modules = pair.at("steps").at(0).at("modules");
  EXPECT_EQ(modules.at("basis"), "by_rank");
  EXPECT_EQ(modules.at("decides"), true);
  EXPECT_EQ(modules.at("alone"), (std::vector<int>{0, 0}));
  ASSERT_EQ(modules.at("tensors").size(), 64U);
  EXPECT_EQ(modules.at("tensors").at(0).at("quantity"), "output");
  EXPECT_EQ(modules.at("tensors").at(0).at("name"), "embed");
  EXPECT_EQ(modules.at("tensors").at(34).at("quantity"), "output_gradient");
  const Outcome report = ModuleTrainings::get().lockstep("report ddp2");
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("34 of 34 parameters compared on 2 of 2 ranks"));
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("outputs of modules were observed, 34 of them, and the gradients at 30"));
}

TEST(ObservedModules, NameTheFirstElementsThatAreNotFinite) {
  const Outcome report = ModuleTrainings::get().lockstep("report ddp2-infinite");
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("became not finite in step 1: embed.weight, after the module output of "
                        "blocks.1.attn on rank 1 "));
}

}  // namespace
}  // namespace lockstep
