// Additional promises of the scenarios about gradient hooks.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "tests/command.h"
#include "tests/scenarios/gradients_of.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;

const std::string kPerTile = "tiled-backward-fires-hooks-per-tile";
const std::string kAbsent = "tiled-parameter-absent-from-last-tile";
const std::string kNoGradient = "tiled-input-needs-no-gradient";
const std::string kAnotherMask = "recomputed-tile-draws-another-dropout-mask";

/// A run of the catalogue in which all is as expected.
class CatalogueRun {
 public:
  explicit CatalogueRun(const std::string& arguments) {
    const Outcome outcome = run_shell(
        fmt::format("{} run {} --out {}", LOCKSTEP_PROGRAM, arguments, folder().string()));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    record_ = json::parse(text_of(folder() / "record.json"));
  }

  /// The cells of the variants that repair the fault, except those that cannot be run.
  std::vector<json> fixed() const {
    std::vector<json> cells;
    for (const json& cell : record_.at("cells")) {
      const std::string role = cell.at("cell").at("role");
      if (cell.at("processes") > 0 && (role == "fixed" || role == "latent")) cells.push_back(cell);
    }
    return cells;
  }

  const json& cells() const { return record_.at("cells"); }

  /// Gradients that rank `rank` of the cell in `cell_folder` passed to its optimizer, by step and
  /// name.
  Gradients gradients(const std::string& cell_folder, int rank) const {
    Gradients found = gradients_of(folder() / cell_folder / fmt::format("rank-{}.csv", rank));
    EXPECT_FALSE(found.empty()) << cell_folder;
    return found;
  }

 private:
  fs::path folder() const { return folder_.path() / "run"; }

  TemporaryFolder folder_;
  json record_;
};

const json& result_of(const json& cell, const std::string& predicate, const std::string& kind) {
  for (const json& result : cell.at("results")) {
    const json& claim = result.at("claim");
    if (claim.at("predicate") == predicate && claim.at("kind") == kind) return result;
  }
  throw std::runtime_error("no such claim");
}

/// "scenario/a scenario/b".
std::string variants_of(const std::string& scenario, const std::vector<std::string>& variants) {
  std::string names;
  for (const std::string& variant : variants) names += fmt::format("{}/{} ", scenario, variant);
  return names;
}

struct Repair {
  std::string scenario;
  std::vector<std::string> variants;
  std::size_t cells = 0;  ///< at least

  friend std::ostream& operator<<(std::ostream& out, const Repair& repair) {
    return out << repair.scenario;
  }
};

class EveryRepair : public testing::TestWithParam<Repair> {};

TEST_P(EveryRepair, IsRightToTwelveDigitsInDouble) {
  const CatalogueRun run(variants_of(GetParam().scenario, GetParam().variants) +
                         "--ranks 2 --matrix --set dtype=float64");
  const auto cells = run.fixed();
  EXPECT_GE(cells.size(), GetParam().cells);
  for (const json& cell : cells) {
    for (const char* kind : {"gradient", "parameter"}) {
      const json& result = result_of(cell, "equal_reference", kind);
      ASSERT_GT(result.at("comparisons"), 0) << cell.at("folder");
      if (result.at("margin").is_null()) continue;  // bitwise equal
      const double difference =
          result.at("margin").get<double>() * result.at("tolerance").get<double>();
      EXPECT_LE(difference, 1e-12) << cell.at("folder") << " " << kind;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, EveryRepair,
    testing::Values(Repair{kPerTile, {"grad-but-last", "explicit-inputs"}, 40},
                    Repair{kAbsent, {"touching-all", "explicit-inputs"}, 30},
                    Repair{kNoGradient, {"input-requires-grad", "explicit-inputs"}, 30},
                    Repair{kAnotherMask, {"restored"}, 15}),
    [](const auto& repair) {
      std::string name = repair.param.scenario;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

struct ExactSums {
  std::string dtype;
  std::string ranks;
  std::size_t cells = 0;  ///< at least

  friend std::ostream& operator<<(std::ostream& out, const ExactSums& sums) {
    return out << sums.dtype << " on " << sums.ranks;
  }
};

class WhereSumsAreExact : public testing::TestWithParam<ExactSums> {};

/// World sizes that are powers of two, because a division by 3 is not exact.
TEST_P(WhereSumsAreExact, TilesAreTheReferenceBitForBit) {
  const CatalogueRun run(
      variants_of(kPerTile, {"grad-but-last", "explicit-inputs"}) + "--ranks " + GetParam().ranks +
      " --matrix --set values=dyadic --set bucket=standard --set dtype=" + GetParam().dtype);
  const auto cells = run.fixed();
  EXPECT_GE(cells.size(), GetParam().cells);
  for (const json& cell : cells) {
    const auto expected = run.gradients(cell.at("reference_folder"), 0);
    for (int rank = 0; rank < cell.at("cell").at("world_size"); ++rank) {
      EXPECT_EQ(run.gradients(cell.at("folder"), rank), expected) << cell.at("folder");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, WhereSumsAreExact, testing::Values(ExactSums{"float32", "2", 20}),
                         [](const auto& sums) { return sums.param.dtype; });
INSTANTIATE_TEST_SUITE_P(Soak, WhereSumsAreExact,
                         testing::Values(ExactSums{"float32", "2,4", 40},
                                         ExactSums{"float64", "2,4", 40}),
                         [](const auto& sums) { return sums.param.dtype; });

/// The pull request does not change a run of one rank; changing it would make no difference.
TEST(GatedRepair, IsTheUngatedOneBitForBitOnOneRank) {
  const CatalogueRun run(
      fmt::format("{0}/gated {0}/grad-but-last --ranks 1 --matrix "
                  "--set find_unused=off --set static_graph=off --set bucket=standard "
                  "--set bucket_view=off --set no_sync=off --set values=drawn",
                  kPerTile));
  int compared = 0;
  for (const json& cell : run.fixed()) {
    if (cell.at("cell").at("variant") != "gated") continue;
    const std::string gated = cell.at("folder");
    std::string ungated = gated;
    ungated.replace(ungated.find("/gated/"), 7, "/grad-but-last/");
    EXPECT_EQ(run.gradients(gated, 0), run.gradients(ungated, 0)) << gated;
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

/// Symptoms of the variants of a scenario.
std::set<std::string> outcomes_of(const std::string& arguments) {
  const CatalogueRun run(arguments + " --ranks 2");
  std::set<std::string> kinds;
  for (const json& cell : run.cells()) kinds.insert(cell.at("symptom").at("kind"));
  return kinds;
}

/// The cell of the variant in a run of one variant.
struct Trained {
  explicit Trained(const std::string& conditions)
      : run(kPerTile + "/explicit-inputs --ranks 2 " + conditions), cell(run.fixed().at(0)) {}

  auto gradients() const { return run.gradients(cell.at("folder"), 0); }
  double collectives() const { return cell.at("cost").at("collectives"); }

  CatalogueRun run;
  json cell;
};

/// If a condition is misread, the expectation misreads it, too, and the cell is still as expected.
TEST(ConditionsOfAStep, ReachTheTraining) {
  const Trained plain("");
  EXPECT_NE(Trained("--set prior=on").gradients(), plain.gradients());
  EXPECT_NE(Trained("--set accumulation=2").gradients(), plain.gradients())
      << "every micro-batch has the same data";
  EXPECT_GT(Trained("--set bucket=small").collectives(), plain.collectives() + 2);
  EXPECT_LT(Trained("--set accumulation=4 --set no_sync=on").collectives(),
            Trained("--set accumulation=4").collectives() - 2);
  EXPECT_GT(Trained("--set find_unused=on").collectives(), plain.collectives());
  EXPECT_NE(Trained("--set length=11").gradients(), plain.gradients());
  EXPECT_NE(Trained("--set batch=1").gradients(), plain.gradients());
}

/// The same fault with distinct symptoms.
TEST(OutcomesOfHooks, AreAllKindsThatTheFaultHas) {
  EXPECT_THAT(outcomes_of(kPerTile), ElementsAre("agree but wrong", "raised", "right"));
  EXPECT_THAT(outcomes_of(kPerTile + " --set around=nothing"),
              ElementsAre("agree but wrong", "raised", "ranks differ", "right"));
  EXPECT_THAT(outcomes_of(kAbsent), ElementsAre("raised", "raised late", "ranks differ", "right"));
  EXPECT_THAT(outcomes_of(kNoGradient), ElementsAre("never trained", "raised late", "right"));
  EXPECT_THAT(outcomes_of(kAnotherMask), ElementsAre("agree but wrong", "right"));
}

/// After the first tile no work is pending, so no error is raised for any number of ranks.
TEST(SilentTiles, AreFoundWithoutAnError) {
  for (const char* around : {"above", "nothing"}) {
    const CatalogueRun run(
        fmt::format("{}/backward-per-tile --ranks 2,3,4 --set around={}", kPerTile, around));
    for (const json& cell : run.cells()) {
      if (cell.at("cell").at("role") != "buggy") continue;
      EXPECT_EQ(cell.at("symptom").at("kind"), "ranks differ");
      EXPECT_EQ(cell.at("symptom").at("step"), 1);
      EXPECT_EQ(result_of(cell, "agree_across_ranks", "gradient").at("verdict"), "violated");
      for (const json& end : cell.at("exits")) EXPECT_EQ(end.at("error"), "");
    }
  }
}

}  // namespace
}  // namespace lockstep
