// Tests the instrument itself: planted faults must be named, healthy runs must give no finding.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "harness/record/rank_status.h"
#include "tests/scenarios/gradients_of.h"
#include "tests/scenarios/testbed_run.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Plant {
  int world_size;
  int rank;
  int step;
  int bit;

  friend std::ostream& operator<<(std::ostream& out, const Plant& plant) {
    return out << fmt::format("rank {} of {}, step {}, bit {}", plant.rank, plant.world_size,
                              plant.step, plant.bit);
  }
};

class PlantedBit : public testing::TestWithParam<Plant> {};

TEST_P(PlantedBit, IsNamedExactly) {
  const auto [world_size, rank, step, bit] = GetParam();
  const TestbedRun run(
      fmt::format("planted-bit --ranks {} --set rank={} --set step={} --set bit={}", world_size,
                  rank, step, bit));
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  const json findings = run.findings("flip", "agree_across_ranks");
  ASSERT_EQ(findings.size(), 1U);
  const json& finding = findings[0];
  EXPECT_EQ(finding.at("step"), step);
  EXPECT_EQ(finding.at("tensor"), "b");
  EXPECT_EQ(finding.at("places"), 1);
  EXPECT_EQ(finding.at("differing_elements"), 1);
  EXPECT_EQ(finding.at("first_difference").at("index"), json({0, 5}));
  EXPECT_EQ(finding.at("groups").size(), 2U);
  EXPECT_EQ(finding.at("groups")[rank == 0 ? 0 : 1], json::array({rank})) << finding.at("groups");
  EXPECT_TRUE(run.findings("clean", "agree_across_ranks").empty());
}

INSTANTIATE_TEST_SUITE_P(Testbed, PlantedBit,
                         testing::Values(Plant{2, 0, 1, 0}, Plant{2, 1, 3, 31}, Plant{3, 2, 2, 22},
                                         Plant{4, 3, 1, 23}, Plant{4, 0, 3, 0},
                                         Plant{64, 1, 2, 0}));

class PlantedBitOnADevice : public testing::TestWithParam<int> {};

TEST_P(PlantedBitOnADevice, IsNamedExactlyAndTheCleanRunAgreesWithItsReference) {
  const TestbedRun run(fmt::format("trains-on-devices --device sim --ranks {}", GetParam()));
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  const json findings = run.findings("flip", "agree_across_ranks");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].at("step"), 2);
  EXPECT_EQ(findings[0].at("tensor"), "upper.weight");
  EXPECT_EQ(findings[0].at("places"), 1);
  EXPECT_EQ(findings[0].at("differing_elements"), 1);
  EXPECT_EQ(findings[0].at("first_difference").at("index"), json({1, 2}));
  EXPECT_EQ(run.cell("clean").at("verdict"), "as expected");
  for (const char* variant : {"flip", "clean", "reference"}) {
    EXPECT_EQ(run.cell(variant).at("cell").at("device"), "sim");
    EXPECT_EQ(run.cell(variant).at("folder"),
              fmt::format("trains-on-devices/{}/w{}-device=sim", variant, GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Testbed, PlantedBitOnADevice, testing::Values(2, 3));

/// DDP orders its buckets by the first backward, and Gloo sums three ranks in an order that depends
/// on a gradient's place in its bucket. So gradients must arrive in one order, however fast the
/// threads of the devices are.
TEST(LateCopies, DoNotChangeABit) {
  const auto gradients = [](const std::string& copies) {
    const TestbedRun run("late-copies --ranks 3 --set crossing=logit-scale --set copies=" + copies);
    EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
    std::map<std::string, Gradients> all;
    for (const char* variant : {"hidden-moved-before", "functional-hidden-moved-before"}) {
      const auto folder = run.path() / run.cell(variant).at("folder").get<std::string>();
      all[variant] = gradients_of(folder / "rank-0.csv");
      EXPECT_FALSE(all[variant].empty());
    }
    return all;
  };
  EXPECT_TRUE(gradients("at-once") == gradients("late")) << "all digests are too long to print";
}

TEST(SwappedRoles, TurnTheDetectionTableRed) {
  const TestbedRun run("swapped-roles");
  EXPECT_EQ(run.outcome().status, 1);
  EXPECT_EQ(run.cell("flip").at("verdict"), "false alarm");
  EXPECT_EQ(run.cell("clean").at("verdict"), "missed");
}

/// A cell is recognised by the pins of its fault, not only by the broken claims.
TEST(ReplacedBodies, AreNotTheDeclaredFault) {
  const TestbedRun run("replaced-bodies --ranks 2,3 --matrix");
  EXPECT_EQ(run.outcome().status, 1);
  int cells = 0;
  for (const json& cell : run.record().at("cells")) {
    const json& what = cell.at("cell");
    if (what.at("role") == "reference") continue;
    const bool is_declared = what.at("variant") == "as-declared";
    EXPECT_EQ(cell.at("verdict"), is_declared ? "as expected" : "missed") << what;
    ++cells;
  }
  EXPECT_EQ(cells, 2 * 3 * 6);
}

TEST(ReplacedBodies, AreToldByWhatDiffers) {
  const TestbedRun run("replaced-bodies/times-1.7 --ranks 2");
  EXPECT_THAT(run.outcome().out, HasSubstr("expected ratio from 1.998 to 2.002, found 1.7"));
}

TEST(ObservesNothing, IsUndecidedNotInLockstep) {
  const TestbedRun run("observes-nothing");
  EXPECT_EQ(run.outcome().status, 2);
  EXPECT_THAT(run.outcome().out, HasSubstr("not triggered"));
}

TEST(NeverReached, IsUndecidedAlthoughEveryValueIsRight) {
  const TestbedRun run("never-reached --ranks 2");
  EXPECT_EQ(run.outcome().status, 2);
  EXPECT_EQ(run.cell("behind-a-gate").at("verdict"), "undecided");
  EXPECT_EQ(run.cell("forgotten").at("verdict"), "undecided");
  EXPECT_THAT(run.outcome().out, HasSubstr("not triggered: no rank reached"));
  for (const json& result : run.cell("behind-a-gate").at("results")) {
    EXPECT_EQ(result.at("verdict"), "undecided") << result;
    EXPECT_TRUE(result.at("findings").empty());
  }
}

TEST(NeverReached, IsReachedByOneRank) {
  const TestbedRun run("never-reached/in-the-open --ranks 2,3,4");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
  EXPECT_EQ(run.cell("in-the-open").at("verdict"), "as expected");
}

TEST(LateError, TellsTheGenuineTextAndItsLag) {
  const TestbedRun run("late-error --ranks 2,3");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
  const json findings = run.findings("unused-once", "ranks_finish");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].at("failure").at("error").get<std::string>(),
              HasSubstr("Expected to have finished reduction in the prior iteration"));
  EXPECT_EQ(findings[0].at("failure").at("lag"), 1);
  EXPECT_EQ(findings[0].at("step"), 2);
}

class Endings : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(Endings, NameTheCulpritAloneAndHowItEnded) {
  const auto& [variant, how] = GetParam();
  const TestbedRun run(fmt::format("endings/{} --ranks 3", variant));
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
  const json findings = run.findings(variant, "ranks_finish");
  ASSERT_EQ(findings.size(), 1U) << findings;
  EXPECT_EQ(findings[0].at("failure").at("rank"), 1);
  EXPECT_THAT(findings[0].at("sentence").get<std::string>(), HasSubstr(how));
}

INSTANTIATE_TEST_SUITE_P(Testbed, Endings,
                         testing::Values(std::pair("raises", "in step 2: planted: rank 1 gives up"),
                                         std::pair("raises-without-text",
                                                   "an exception without a text"),
                                         std::pair("exits", "status 3 in step 2"),
                                         std::pair("exits-with-0", "status 0 in step 2"),
                                         std::pair("aborts", "SIGABRT) in step 2"),
                                         std::pair("is-killed", "SIGKILL) in step 2")),
                         [](const auto& parameter) {
                           std::string name = parameter.param.first;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Without recorded calls no rank is known to be in one, but a lost peer is still a consequence.
TEST(Endings, AreOneRanksAloneWithoutCollectiveLogsToo) {
  for (const char* variant : {"raises", "exits", "is-killed"}) {
    const TestbedRun run(fmt::format("endings/{} --ranks 3 --collectives off", variant));
    EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
    EXPECT_EQ(run.findings(variant, "ranks_finish").size(), 1U) << variant;
  }
}

TEST(Endings, AtALimitThatCameTooSoonAreNobodysFault) {
  // On a busy machine the rendezvous takes more than a second.
  const TestbedRun run("endings/finishes --ranks 2 --steps 1000000 --timeout 3");
  EXPECT_EQ(run.outcome().status, 2) << run.outcome().out << run.outcome().err;
  const json cell = run.cell("finishes");
  EXPECT_TRUE(cell.at("mismatch").is_null());
  for (const json& result : cell.at("results")) {
    EXPECT_EQ(result.at("verdict"), "undecided") << result;
  }
  EXPECT_THAT(cell.at("symptom").at("text").get<std::string>(),
              testing::MatchesRegex("undecided: still making progress at the limit of 3 s, step "
                                    "[0-9]+ of 1000000: raise --timeout.*"));
}

TEST(Rendezvous, ThatABodyWrecksIsAFinding) {
  const TestbedRun run(
      "rendezvous/raises rendezvous/exits rendezvous/stays-away rendezvous/meets "
      "--timeout 3");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  for (const char* variant : {"raises", "exits", "stays-away"}) {
    EXPECT_EQ(run.findings(variant, "ranks_finish").size(), 1U) << variant;
    EXPECT_TRUE(run.cell(variant).at("not_run").is_null()) << variant;
  }
}

TEST(Rendezvous, ThatTheMachineDeniesIsNoRun) {
  const TestbedRun run("rendezvous/has-no-files --ranks 2 --timeout 20");
  EXPECT_EQ(run.outcome().status, 2) << run.outcome().out << run.outcome().err;
  const json cell = run.cell("has-no-files");
  ASSERT_FALSE(cell.at("not_run").is_null()) << cell.at("exits");
  EXPECT_EQ(cell.at("not_run").at("cause"), "no rendezvous");
  EXPECT_THAT(cell.at("not_run").at("reason").get<std::string>(),
              HasSubstr("the ranks could not meet"));
  EXPECT_TRUE(cell.at("results").empty()) << "no claim is made";
  EXPECT_TRUE(cell.at("mismatch").is_null());
  EXPECT_THAT(run.outcome().out, Not(HasSubstr("false alarm:")));
}

TEST(FullDisk, EndsNoTrainingAndIsNoFindingEvenIfTheBodyCatchesAll) {
  const TestbedRun run("full-disk/trains-on --ranks 2");
  EXPECT_EQ(run.outcome().status, 64) << run.outcome().out << run.outcome().err;
  EXPECT_THAT(run.outcome().err, HasSubstr("rank-1.step-2.safetensors"));
  EXPECT_THAT(run.outcome().out, Not(HasSubstr("as expected")));
  const std::filesystem::path cell = run.path() / "full-disk/trains-on/w2";
  EXPECT_THAT(text_of(cell / "rank-1.log"),
              HasSubstr("lockstep: rank 1 is no longer observed, from step 2 on: "));
  const RankStatus full = read_rank_status(rank_status_file(cell, 1));
  EXPECT_TRUE(full.is_own) << "an error of the machine";
  EXPECT_EQ(full.step, 4);
  const RankStatus other = read_rank_status(rank_status_file(cell, 0));
  EXPECT_FALSE(other.raised) << "its peer came to every collective";
  EXPECT_EQ(other.step, 4);
}

TEST(Axis, ThatABodyMakesUpIsItsOwnErrorAndEndsNoOtherCell) {
  const TestbedRun run("rendezvous/asks-for-an-axis rendezvous/meets --ranks 2");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  EXPECT_THAT(run.findings("asks-for-an-axis", "ranks_finish").at(0).at("sentence"),
              HasSubstr("rendezvous/asks-for-an-axis has no axis 'nope'"));
  EXPECT_EQ(run.cell("meets").at("verdict"), "as expected");
}

TEST(Endings, OfAStoppedRankSayThatItWasStopped) {
  const TestbedRun run("endings/stops --ranks 3");
  EXPECT_EQ(run.findings("stops", "ranks_finish").size(), 1U);
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
  EXPECT_THAT(run.outcome().out, HasSubstr("rank 1 did not finish (stopped by SIGSTOP) in step 2"));
}

TEST(Endings, OfAHangNameTheRankThatDidNotComeAlone) {
  const TestbedRun run("endings/hangs --ranks 3");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
  EXPECT_EQ(run.findings("hangs", "ranks_finish").size(), 1U);
  EXPECT_THAT(unwrapped(run.outcome().out),
              HasSubstr("ank 1 never entered collective 2 of the group world in step 2"));
}

TEST(Endings, OfHealthyRanksAreSilent) {
  const TestbedRun run("endings/finishes --ranks 2,3,4");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
}

TEST(Empty, RunsOnOneAndOnSixtyFourRanks) {
  const TestbedRun run("empty --ranks 1,64");
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out;
}

}  // namespace
}  // namespace lockstep
