// Gradients as real trainings reduce them, rightly and wrongly: reductions.py on four ranks.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/command.h"
#include "tests/scenarios/seeds.h"
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
    {"ddp missing copies adamw clip", "FAILED: gradients lack the contribution of rank 2 ("},
    {"hand nothing copies",
     "FAILED: gradients were never synchronised (9 of 9, from step 1). Cause: neither DDP nor FSDP "
     "wraps the module"},
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
     "FAILED: gradients were never synchronised (9 of 9, from step 1). Cause: neither DDP nor FSDP "
     "wraps the module"},
    {"ddp hook-own accumulation",
     "FAILED: gradients were never synchronised (9 of 9, from step 1): each rank has its own"},
    {"hand halves", "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
    {"ddp hook-halves clip-value",
     "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
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

/// By fully_shard, or FSDP1. Shards of a rank are on no other, so ranks differ only where there are
/// replicas of them.
const std::vector<Planted> kWrongShards{
    {"shards missing", "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"shards missing clip accumulation adamw",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"shards missing mixed float-sums offload",
     "FAILED: gradients lack the contribution of rank 2 (8 of 8, from step 2)"},
    {"shards of-one",
     "FAILED: gradients on all ranks are those of rank 1 alone (8 of 8, from step 2)"},
    {"shards of-one accumulation each clip",
     "FAILED: gradients on all ranks are those of rank 1 alone (8 of 8, from step 2)"},
    {"shards twice",
     "FAILED: gradients are 1/4 of the mean of 4 ranks: averaged twice (8 of 8, from step 2)"},
    {"pairs twice clip",
     "FAILED: gradients are 1/4 of the mean of 4 ranks: averaged twice (8 of 8, from step 2)"},
    {"shards early accumulation",
     "FAILED: gradients lack what the last backward passes of a step contributed (8 of 8, from "
     "step 2)"},
    {"shards early accumulation mixed float-sums clip",
     "FAILED: gradients lack what the last backward passes of a step contributed (8 of 8, from "
     "step 2)"},
    {"shards nothing",
     "FAILED: gradients were never synchronised: no backward pass reduced what ranks contributed "
     "(9 of 9, from step 2)"},
    {"shards nothing accumulation mixed float-sums adamw",
     "FAILED: gradients were never synchronised: no backward pass reduced what ranks contributed "
     "(9 of 9, from step 2)"},
    {"pairs replicas-later nothing",
     "FAILED: gradients were never synchronised: no backward pass reduced what ranks contributed "
     "(9 of 9, from step 2)"},
    {"shards own-clip",
     "FAILED: each rank clipped its parts of gradients by their own norm, 0.01, not by that of the "
     "whole (9 of 9, from step 1)"},
    {"pairs own-clip accumulation",
     "FAILED: each rank clipped its parts of gradients by their own norm, 0.01, "},
    {"flat own-clip",
     "FAILED: each rank clipped its parts of gradients by their own norm, 0.01, not by that of the "
     "whole (1 of 1, from step 1)"},
    {"flat own-clip original adamw",
     "FAILED: each rank clipped its parts of gradients by their own norm, 0.01, "},
    {"shards own-lr adamw",
     "FAILED: ranks updated their parts of parameters apart (9 of 9, from step 1). Cause: AdamW.lr "
     "is 0.01 on ranks 0,2,3 and 0.02 on rank 1, of the optimizer made at reductions.py:"},
    {"flat own-skip scaler",
     "FAILED: ranks updated their parts of parameters apart (1 of 1, from step 3). Cause: a "
     "gradient "
     "scaler skipped the step on rank 2 alone"},
    {"pairs within", "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"},
    {"pairs within recomputed clip-value accumulation",
     "Cause: gradients are reduced within ranks 0,1 and within ranks 2,3 only"}};

const std::vector<const char*> kRightShards{"shards",
                                            "shards adamw clip",
                                            "shards accumulation keep",
                                            "shards accumulation each clip-value",
                                            "shards mixed float-sums accumulation",
                                            "shards mixed",
                                            "shards frozen clip",
                                            "shards tied",
                                            "shards repeated",
                                            "shards recomputed clip",
                                            "shards factor accumulation",
                                            "shards offload clip",
                                            "shards tokens",
                                            "shards autocast",
                                            "shards same",
                                            "shards compiled",
                                            "pairs",
                                            "pairs accumulation mixed float-sums clip",
                                            "pairs replicas-later accumulation"};

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
                                      "ddp copies accumulation adamw",
                                      "hand copies clip",
                                      "ddp same",
                                      "ddp noise",
                                      "ddp hook-sum adamw",
                                      "ddp compiled",
                                      "hand",
                                      "hand sum clip",
                                      "hand sum-of-one clip",
                                      "hand weights",
                                      "hand accumulation scaler",
                                      "hand bfloat16 noise"};

constexpr int kSeeds = 2;

/// The words of a case.
std::string_view words_of(const Planted& one) { return one.words; }
std::string_view words_of(const char* words) { return words; }

/// Those of one word, and of the others, first those with most words, each that has a word that
/// none before has. The soak, which asks for more seeds, has all.
template <typename Case>
std::vector<Case> chosen(std::vector<Case> all) {
  if (seeds(kSeeds).size() > kSeeds) return all;
  const auto number_of_spaces = [](const Case& one) {
    return std::ranges::count(words_of(one), ' ');
  };
  std::ranges::stable_sort(all, std::greater(), number_of_spaces);
  std::set<std::string> seen;
  std::erase_if(all, [&](const Case& one) {
    std::istringstream words{std::string(words_of(one))};
    bool is_known = true;
    for (std::string word; words >> word;) is_known &= !seen.insert(word).second;
    return is_known && number_of_spaces(one) > 0;
  });
  return all;
}

/// Healthy ones, by seed.
std::vector<std::string> drawn() {
  std::vector<std::string> all;
  for (const int seed : seeds(kSeeds)) all.push_back(fmt::format("drawn {}", seed));
  return all;
}

class RealReductions : public testing::Test {
 protected:
  static std::string run_of(const std::string& words) {
    std::string name = words;
    std::ranges::replace(name, ' ', '-');
    return (folder().path() / name).string();
  }

  static Reported told_of(const std::string& words) { return reported(run_of(words)); }

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
    for (const auto* const all : {&kWrong, &kWrongShards}) {
      for (const Planted& one : chosen(*all)) cases.push_back(fmt::format("'{}'", one.words));
    }
    for (const auto* const all : {&kRight, &kRightShards}) {
      for (const char* const one : chosen(*all)) cases.push_back(fmt::format("'{}'", one));
    }
    cases.insert(cases.end(), {"'ddp join'", "'shards rarely'", "'flat clip scaler'",
                               "'flat own-seed'", "'shards own-seed'", "'shards own-probe'"});
    for (const std::string& one : drawn()) cases.push_back(fmt::format("'{}'", one));
    return fmt::format("env PYTHONPATH={}/share/lockstep/python {} {} {}", LOCKSTEP_BUILD,
                       forked_ranks("reductions", 4), folder, fmt::join(cases, " "));
  }
};

TEST_F(RealReductions, AreNamedIfTheyAreWrong) {
  for (const auto* const all : {&kWrong, &kWrongShards}) {
    for (const Planted& one : chosen(*all)) {
      const auto [status, text] = told_of(one.words);
      EXPECT_EQ(status, 1) << one.words << "\n" << text;
      EXPECT_THAT(text, HasSubstr(one.sentence)) << one.words;
    }
  }
}

/// Nobody has judged jobs that scripts watch.
TEST_F(RealReductions, AreToldByAComparison) {
  for (const Planted& one : chosen(kWrong)) {
    const std::string_view sentence = one.sentence;
    constexpr std::string_view kFailed = "FAILED: gradients ";
    const bool do_ranks_agree = sentence.find("never synchronised") == sentence.npos;
    if (!sentence.starts_with(kFailed) || !do_ranks_agree) continue;
    const std::string_view told = sentence.substr(kFailed.size());
    const Outcome outcome =
        run_shell(fmt::format("{} diff {} {}", LOCKSTEP_PROGRAM, run_of("ddp"), run_of(one.words)));
    EXPECT_THAT(unwrapped(outcome.out),
                HasSubstr(fmt::format("B: gradients {}", told.substr(0, told.find(" (")))))
        << one.words;
  }
}

TEST_F(RealReductions, AreNoFaultIfTheyAreRightOrUnknown) {
  for (const char* const words : chosen(kRight)) {
    const auto [status, text] = told_of(words);
    EXPECT_EQ(status, 0) << words << "\n" << text;
    EXPECT_THAT(text, HasSubstr("in lockstep: 9 of 9 parameters")) << words;
  }
}

TEST_F(RealReductions, OfShardsAreNoFaultIfTheyAreRightOrUnknown) {
  for (const char* const words : chosen(kRightShards)) {
    const auto [status, text] = told_of(words);
    EXPECT_EQ(status, 0) << words << "\n" << text;
    EXPECT_THAT(text, HasSubstr("with what each rank contributed: ")) << words;
  }
}

/// FSDP1 tells nothing of what ranks contribute.
TEST_F(RealReductions, OfFlatPartsAreNoFaultIfTheyAreRight) {
  const auto [status, text] = told_of("flat clip scaler");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("recorded: 4 steps of 1 parameter"));
}

/// Weights that are drawn at random may be so.
TEST_F(RealReductions, OfModelsThatWereOthersWhenTheyWereDividedAreNoFault) {
  for (const char* const words : {"flat own-seed", "shards own-seed"}) {
    const auto [status, text] = told_of(words);
    EXPECT_EQ(status, 0) << text;
    const char* const wrapper = words[0] == 'f' ? "FSDP" : "fully_shard";
    EXPECT_THAT(text, HasSubstr(fmt::format("when {} divided them, at reduc", wrapper)));
    EXPECT_THAT(text, HasSubstr("note: initial weights differed between ranks ("));
    EXPECT_THAT(text, HasSubstr("such as first.weight)"));
  }
  for (const char* const words : {"flat clip scaler", "shards"}) {
    EXPECT_THAT(told_of(words).text, Not(HasSubstr("initial weights differed"))) << words;
  }
}

/// An optimizer of one rank alone may have other settings.
TEST_F(RealReductions, OfRanksWithAnotherOptimizerAreNoFault) {
  const auto [status, text] = told_of("shards own-probe");
  EXPECT_EQ(status, 3) << text;
  EXPECT_THAT(text, HasSubstr("ranks differ in SGD.lr"));
}

/// Ranks that have no more samples contribute nothing.
TEST_F(RealReductions, OfUnevenInputsAreNoFault) {
  const auto [status, text] = told_of("ddp join");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("with what each rank contributed: 16 of 16"));
}

/// An optimizer that steps after each backward pass, of which every fourth one is reduced.
TEST_F(RealReductions, MayBeMissingInSomeSteps) {
  const auto [status, text] = told_of("shards rarely");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("the reduction of gradients was not judged"));
}

TEST_F(RealReductions, ThatAreDrawnAreNoFault) {
  for (const std::string& words : drawn()) {
    const auto [status, text] = told_of(words);
    EXPECT_EQ(status, 0) << words << "\n" << text;
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
  for (const char* const words : {"shards", "pairs replicas-later accumulation"}) {
    EXPECT_THAT(told_of(words).text, HasSubstr("a rank left out would show among up to ")) << words;
  }
  const char* const is_sum = "note: gradients are the sum of what ranks contributed";
  EXPECT_THAT(told_of("ddp hook-sum adamw").text, HasSubstr(is_sum));
  EXPECT_THAT(told_of("ddp").text, Not(HasSubstr(is_sum)));
  EXPECT_THAT(told_of("shards").text, Not(HasSubstr(is_sum)));
  EXPECT_THAT(told_of("hand sum-of-one clip").text,
              HasSubstr("note: gradients of head.weight are 4 times as large as those of "));
  const char* const are_alike = "note: all ranks contributed the same to all gradients, in 2 steps";
  EXPECT_THAT(told_of("ddp same").text, HasSubstr(are_alike));
  for (const char* const words : {"ddp", "shards", "hand nothing"}) {
    EXPECT_THAT(told_of(words).text, Not(HasSubstr("contributed the same"))) << words;
  }
  EXPECT_THAT(told_of("ddp same").text, Not(HasSubstr("left out")))
      << "ranks that contribute the same cannot be told apart";
}

}  // namespace
}  // namespace lockstep
