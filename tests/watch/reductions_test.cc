// Gradients as real trainings reduce them, rightly and wrongly: reductions.py on four ranks.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/watch/reported.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Planted {
  const char* words;     ///< of the case
  const char* sentence;  ///< the first one
};

/// Ranks agree in the first of these, and differ in the others.
const std::vector<Planted> kWrong{
    {"ddp missing adamw",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"ddp missing view clip",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"ddp missing unused", "FAILED: gradients lack the contribution of rank 2 ("},
    {"ddp missing bfloat16", "FAILED: gradients lack the contribution of rank 2 ("},
    {"ddp missing autocast scaler",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"ddp missing accumulation tokens",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"ddp missing clip-value mask",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"ddp twice",
     "FAILED: gradients are 1/4 of the mean of 4 ranks: averaged twice (8 of 8, from step 2)"},
    {"ddp twice scaler clip",
     "FAILED: gradients are 1/4 of the mean of 4 ranks: averaged twice (8 of 8, from step 2)"},
    {"ddp twice noise view",
     "FAILED: gradients are 1/4 of the mean of 4 ranks: averaged twice (8 of 8, from step 2)"},
    {"hand broadcast",
     "FAILED: gradients on all ranks are those of rank 1 alone (8 of 8, from step 2)"},
    {"hand broadcast clip accumulation",
     "FAILED: gradients on all ranks are those of rank 1 alone (8 of 8, from step 2)"},
    {"hand left-out", "FAILED: gradients lack the contribution of rank 3 (8 of 8, from step 2)"},
    {"hand left-out sum clip adamw",
     "FAILED: gradients lack the contribution of rank 3 (8 of 8, from step 2)"},
    {"hand left-out scaler accumulation keep",
     "FAILED: gradients lack the contribution of rank 3 (8 of 8, from step 2)"},
    {"hand nothing",
     "FAILED: gradients were never synchronised (9 of 9, from step 1): each rank has its own"},
    {"ddp hook-own accumulation",
     "FAILED: gradients were never synchronised (9 of 9, from step 1): each rank has its own"},
    {"hand halves", "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
    {"ddp hook-halves adamw",
     "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
    {"hand halves scaler",
     "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
    {"ddp early accumulation",
     "Cause: gradients were reduced after backward pass 1 alone, and later passes added to them"},
    {"ddp local-mask", "Cause: gradients were changed on rank 2 after the backward pass"},
    {"ddp local-clip", "Cause: gradients were changed on rank 1 after the backward pass"},
    {"ddp local-mask clip view",
     "Cause: gradients were changed on rank 2 after the backward pass"}};

const std::vector<const char*> kRight{"ddp",
                                      "ddp adamw clip",
                                      "ddp view accumulation clip-value",
                                      "ddp unused mask",
                                      "ddp static keep",
                                      "ddp fp16",
                                      "ddp bf16-hook clip",
                                      "ddp tokens",
                                      "ddp autocast scaler",
                                      "ddp bfloat16 accumulation",
                                      "ddp same",
                                      "ddp noise",
                                      "ddp hook-sum adamw",
                                      "ddp compiled",
                                      "hand",
                                      "hand sum clip",
                                      "hand weights",
                                      "hand accumulation scaler",
                                      "hand bfloat16 noise"};

class RealReductions : public testing::Test {
 protected:
  static Reported told_of(const std::string& words) {
    std::string name = words;
    std::ranges::replace(name, ' ', '-');
    return reported(folder().path() / name);
  }

 private:
  /// All of them, trained once.
  static const TemporaryFolder& folder() {
    static const TemporaryFolder folder;
    static const Outcome trained = run_shell(trainings_into(folder.path().string()));
    EXPECT_EQ(trained.status, 0) << trained.err;
    return folder;
  }

  static std::string trainings_into(const std::string& folder) {
    std::vector<std::string> cases;
    for (const Planted& one : kWrong) cases.push_back(fmt::format("'{}'", one.words));
    for (const char* const one : kRight) cases.push_back(fmt::format("'{}'", one));
    return fmt::format("env PYTHONPATH={}/share/lockstep/python {} {} {}", LOCKSTEP_BUILD,
                       forked_ranks("reductions", 4), folder, fmt::join(cases, " "));
  }
};

TEST_F(RealReductions, AreNamedIfTheyAreWrong) {
  for (const Planted& one : kWrong) {
    const auto [status, text] = told_of(one.words);
    EXPECT_EQ(status, 1) << one.words << "\n" << text;
    EXPECT_THAT(text, HasSubstr(one.sentence)) << one.words;
  }
}

TEST_F(RealReductions, AreNoFaultIfTheyAreRightOrUnknown) {
  for (const char* const words : kRight) {
    const auto [status, text] = told_of(words);
    EXPECT_EQ(status, 0) << words << "\n" << text;
    EXPECT_THAT(text, HasSubstr("in lockstep: 9 of 9 parameters")) << words;
  }
}

/// The report says how much was judged.
TEST_F(RealReductions, AreToldAsFarAsTheyWereJudged) {
  EXPECT_THAT(told_of("ddp").text,
              HasSubstr("gradients of 2 steps were compared with what each rank contributed: 16 of "
                        "16; a rank left out would show among up to 1"));
  EXPECT_THAT(told_of("hand weights").text,
              HasSubstr("the reduction of gradients was not judged: none, in 2 steps, is the mean "
                        "of what all ranks contributed"));
  EXPECT_THAT(told_of("ddp same").text, Not(HasSubstr("left out")))
      << "ranks that contribute the same cannot be told apart";
}

}  // namespace
}  // namespace lockstep
