// Ranks that call different collectives are named, whatever the backend does; ranks whose calls
// only look different are not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "tests/foreign_launchers.h"
#include "tests/scenarios/testbed_run.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// Backend of the ranks, and the program that starts them.
struct Way {
  std::string name;
  int ranks;
  std::string mpirun;  ///< empty: Lockstep starts them, over gloo

  bool is_mpi() const { return !mpirun.empty(); }
  std::string options() const {
    // Long enough for healthy ranks. It is also the time to wait for hanging ones, which are common
    // over gloo.
    const std::string same = fmt::format("--ranks {} --timeout {}", ranks, is_mpi() ? 15 : 3);
    return same +
           (is_mpi() ? " --backend mpi --launcher '" + mpirun + " -n {ranks}'" : " --jobs 8");
  }
  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

const std::vector<Way> kWays{{"gloo_2", 2, ""},
                             {"gloo_3", 3, ""},
                             {"openmpi_3", 3, "mpirun.openmpi"},
                             {"mpich_2", 2, "mpirun.mpich"}};

class OverEveryBackend : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    allow_foreign_launchers();
    if (GetParam().is_mpi() && find_program(GetParam().mpirun).empty()) {
      GTEST_SKIP() << "there is no " << GetParam().mpirun;
    }
  }
  TestbedRun run(const std::string& variant, const std::string& options = "") const {
    return TestbedRun(
        fmt::format("collective-mismatch/{} {} {}", variant, GetParam().options(), options));
  }
};

std::string axis(const json& cell, const std::string& name) {
  for (const json& value : cell.at("cell").at("axes")) {
    if (value.at("axis") == name) return value.at("value");
  }
  return "";
}

std::string title(const json& cell) {
  return fmt::format("{} {} {}, {} ranks", cell.at("cell").at("variant").get<std::string>(),
                     axis(cell, "first"), axis(cell, "second"),
                     cell.at("cell").at("world_size").get<int>());
}

std::string verdict_on_collectives(const json& cell) {
  return cell.at("results").at(0).at("verdict");
}

/// With two ranks either may be the wrong one; with more it is the one that is alone.
void expect_named(const json& cell, const std::vector<std::string>& faults) {
  SCOPED_TRACE(title(cell));
  EXPECT_EQ(verdict_on_collectives(cell), "violated");
  const json& mismatch = cell.at("mismatch");
  ASSERT_TRUE(mismatch.is_object());
  EXPECT_THAT(faults, testing::Contains(mismatch.at("fault").get<std::string>()));
  EXPECT_EQ(mismatch.at("group"), "world");
  EXPECT_EQ(mismatch.at("step"), 2);
  EXPECT_FALSE(mismatch.at("sentence").get<std::string>().empty());
  const bool has_majority = cell.at("cell").at("world_size") > 2;
  if (has_majority) {
    EXPECT_EQ(mismatch.at("culprits"), json::array({1}));
  } else {
    EXPECT_FALSE(mismatch.at("culprits").empty());
  }
}

void expect_silent(const json& cell) {
  SCOPED_TRACE(title(cell));
  EXPECT_EQ(verdict_on_collectives(cell), "holds");
  EXPECT_TRUE(cell.at("mismatch").is_null());
  EXPECT_EQ(cell.at("verdict"), "as expected");
}

bool is_applicable(const json& cell) { return cell.at("verdict") != "not applicable"; }

class Mismatch : public OverEveryBackend {};

void expect_operations_named(const TestbedRun& matrix, int count) {
  int named = 0;
  for (const json& cell : matrix.record().at("cells")) {
    if (axis(cell, "first") == axis(cell, "second")) {
      expect_silent(cell);
    } else {
      expect_named(cell, {"operation"});
      EXPECT_EQ(cell.at("mismatch").at("number"), 2);
      ++named;
    }
  }
  EXPECT_EQ(named, count);
}

/// A launcher starts each cell alone, and each of its ranks anew: over MPI, one of the operations
/// meets each of the others, and in the soak each does.
TEST_P(Mismatch, OfOperationsIsNamed) {
  const bool is_mpi = GetParam().is_mpi();
  expect_operations_named(run("operation", is_mpi ? "--matrix --set first=all-reduce" : "--matrix"),
                          is_mpi ? 4 : 20);
}

class MismatchOverMpi : public OverEveryBackend {};

TEST_P(MismatchOverMpi, OfAnyTwoOperationsIsNamed) {
  expect_operations_named(run("operation", "--matrix"), 20);
}

void expect_each_named(const TestbedRun& run, const std::string& variant, int count) {
  int named = 0;
  for (const json& cell : run.record().at("cells")) {
    if (!is_applicable(cell)) continue;
    expect_named(cell, {variant});
    ++named;
  }
  EXPECT_EQ(named, count) << variant;
}

/// Over MPI of one operation; in the soak of each.
TEST_P(Mismatch, OfSizesAndDtypesIsNamed) {
  const bool is_mpi = GetParam().is_mpi();
  for (const char* variant : {"size", "dtype"}) {
    expect_each_named(run(variant, is_mpi ? "--set first=all-reduce" : "--matrix"), variant,
                      is_mpi ? 1 : 4);
  }
}

TEST_P(MismatchOverMpi, OfSizesAndDtypesOfEachOperationIsNamed) {
  for (const char* variant : {"size", "dtype"}) {
    expect_each_named(run(variant, "--matrix"), variant, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Soak, MismatchOverMpi, testing::Values(kWays[2], kWays[3]),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(Mismatch, OfReductionsIsNamed) {
  for (const char* operation : {"all-reduce", "reduce-scatter"}) {
    const TestbedRun one = run("reduction", fmt::format("--set first={}", operation));
    expect_named(one.cell("reduction"), {"reduction"});
  }
}

TEST_P(Mismatch, OfRootsIsNamed) { expect_named(run("root").cell("root"), {"root"}); }

TEST_P(Mismatch, OfTensorsOfOneShapeIsNamedAlthoughNobodyComplains) {
  for (const char* variant : {"order", "tensors"}) {
    const TestbedRun one = run(variant);
    const json cell = one.cell(variant);
    for (const json& end : cell.at("exits")) EXPECT_EQ(end.at("kind"), "finished") << variant;
    expect_named(cell, {"order", "tensors"});
    EXPECT_EQ(cell.at("mismatch").at("number"), 4);
  }
}

TEST_P(Mismatch, OfARankThatNeverComesIsNamed) {
  const TestbedRun one = run("missing", "--set first=all-reduce");
  expect_named(one.cell("missing"), {"missing"});
  EXPECT_EQ(one.cell("missing").at("mismatch").at("culprits"), json::array({1}));
  EXPECT_EQ(one.cell("missing").at("mismatch").at("number"), 2);
}

/// Rank 1's call of step 3 pairs with the others' of step 2; their last one has no partner.
TEST_P(Mismatch, OfARankThatFinishesEarlyIsNamed) {
  const TestbedRun one = run("count", "--set first=all-reduce");
  const json cell = one.cell("count");
  EXPECT_EQ(verdict_on_collectives(cell), "violated");
  EXPECT_EQ(cell.at("mismatch").at("fault"), "count");
  EXPECT_EQ(cell.at("mismatch").at("culprits"), json::array({1}));
  EXPECT_EQ(cell.at("mismatch").at("number"), 3);
}

/// Ranks of other groups called earlier, and wait for ranks that the mismatch ended.
TEST(MismatchInAPart, IsNamedBeforeThoseWhoWaitForItsRanks) {
  const TestbedRun one("collective-mismatch/rows-and-columns --ranks 4 --timeout 10");
  const json cell = one.cell("rows-and-columns");
  EXPECT_EQ(verdict_on_collectives(cell), "violated");
  EXPECT_EQ(cell.at("mismatch").at("fault"), "reduction");
  EXPECT_EQ(cell.at("mismatch").at("group"), "row 1");
}

INSTANTIATE_TEST_SUITE_P(Testbed, Mismatch, testing::ValuesIn(kWays),
                         [](const auto& tested) { return tested.param.name; });

class MatchingCollectives : public OverEveryBackend {
 protected:
  void expect_silence(const std::string& variant) const {
    const TestbedRun one = run(variant);
    EXPECT_EQ(one.outcome().status, 0) << one.outcome().out << one.outcome().err;
    expect_silent(one.cell(variant));
  }
};

TEST_P(MatchingCollectives, AreSilent) {
  for (const char* variant :
       {"zeros-from-another-line", "tied-under-two-names", "extra-model-first", "bucket-view"}) {
    expect_silence(variant);
  }
}

TEST_P(MatchingCollectives, OfSeveralGroupsAreSilent) {
  if (GetParam().is_mpi()) GTEST_SKIP() << "mpi has no groups of some ranks";
  for (const char* variant : {"groups-in-other-orders", "pairs"}) expect_silence(variant);
}

INSTANTIATE_TEST_SUITE_P(Testbed, MatchingCollectives, testing::ValuesIn(kWays),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace lockstep
