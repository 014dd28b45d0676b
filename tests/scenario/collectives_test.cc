// Ranks that call different collectives are named, whatever the backend makes of it; ranks whose
// calls only look different are not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/scenario/testbed_run.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// Long enough for healthy ranks, and what ranks that hang are waited for.
constexpr const char* kLimit = "--timeout 3";

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

/// With two ranks either may be the one that is wrong; with more it is the one that is alone.
void expect_named(const json& cell, const std::vector<std::string>& faults) {
  SCOPED_TRACE(title(cell));
  EXPECT_EQ(verdict_on_collectives(cell), "violated");
  const json& meeting = cell.at("missed_meeting");
  ASSERT_TRUE(meeting.is_object());
  EXPECT_THAT(faults, testing::Contains(meeting.at("fault").get<std::string>()));
  EXPECT_EQ(meeting.at("group"), "world");
  EXPECT_EQ(meeting.at("step"), 2);
  EXPECT_FALSE(meeting.at("sentence").get<std::string>().empty());
  const bool has_majority = cell.at("cell").at("world_size") > 2;
  if (has_majority) {
    EXPECT_EQ(meeting.at("culprits"), json::array({1}));
  } else {
    EXPECT_FALSE(meeting.at("culprits").empty());
  }
}

void expect_silent(const json& cell) {
  SCOPED_TRACE(title(cell));
  EXPECT_EQ(verdict_on_collectives(cell), "holds");
  EXPECT_TRUE(cell.at("missed_meeting").is_null());
  EXPECT_EQ(cell.at("verdict"), "as expected");
}

bool is_applicable(const json& cell) { return cell.at("verdict") != "not applicable"; }

class Mismatch : public testing::TestWithParam<int> {
 protected:
  TestbedRun run(const std::string& variant, const std::string& options = "") const {
    return TestbedRun(fmt::format("collective-mismatch/{} --ranks {} {} {}", variant, GetParam(),
                                  kLimit, options));
  }
};

TEST_P(Mismatch, OfAnyTwoOperationsIsNamed) {
  const TestbedRun matrix = run("operation", "--matrix");
  int named = 0;
  for (const json& cell : matrix.record().at("cells")) {
    if (axis(cell, "first") == axis(cell, "second")) {
      expect_silent(cell);
    } else {
      expect_named(cell, {"operation"});
      EXPECT_EQ(cell.at("missed_meeting").at("number"), 2);
      ++named;
    }
  }
  EXPECT_EQ(named, 20);
}

TEST_P(Mismatch, OfSizesAndDtypesIsNamed) {
  for (const char* variant : {"size", "dtype"}) {
    const TestbedRun matrix = run(variant, "--matrix");
    int named = 0;
    for (const json& cell : matrix.record().at("cells")) {
      if (!is_applicable(cell)) continue;
      expect_named(cell, {variant});
      ++named;
    }
    EXPECT_EQ(named, 4) << variant;
  }
}

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
    for (const json& end : cell.at("ends")) EXPECT_EQ(end.at("ending"), "finished") << variant;
    expect_named(cell, {"order", "tensors"});
    EXPECT_EQ(cell.at("missed_meeting").at("number"), 4);
  }
}

TEST_P(Mismatch, OfARankThatNeverComesIsNamed) {
  const TestbedRun one = run("missing", "--set first=all-reduce");
  expect_named(one.cell("missing"), {"missing"});
  EXPECT_EQ(one.cell("missing").at("missed_meeting").at("culprits"), json::array({1}));
  EXPECT_EQ(one.cell("missing").at("missed_meeting").at("number"), 2);
}

/// Rank 1's call of step 3 meets the others' of step 2; for their last one there is none.
TEST_P(Mismatch, OfARankThatFinishesEarlyIsNamed) {
  const TestbedRun one = run("count", "--set first=all-reduce");
  const json cell = one.cell("count");
  EXPECT_EQ(verdict_on_collectives(cell), "violated");
  EXPECT_EQ(cell.at("missed_meeting").at("fault"), "count");
  EXPECT_EQ(cell.at("missed_meeting").at("culprits"), json::array({1}));
  EXPECT_EQ(cell.at("missed_meeting").at("number"), 3);
}

INSTANTIATE_TEST_SUITE_P(Testbed, Mismatch, testing::Values(2, 3));

class MatchingCollectives : public testing::TestWithParam<std::string> {};

TEST_P(MatchingCollectives, AreSilent) {
  const TestbedRun run(fmt::format("collective-mismatch/{} --ranks 2,3,4", GetParam()));
  EXPECT_EQ(run.outcome().status, 0) << run.outcome().out << run.outcome().err;
  ASSERT_EQ(run.record().at("cells").size(), 3U);
  for (const json& cell : run.record().at("cells")) expect_silent(cell);
}

INSTANTIATE_TEST_SUITE_P(Testbed, MatchingCollectives,
                         testing::Values("groups-in-other-orders", "pairs",
                                         "zeros-from-another-line", "tied-under-two-names",
                                         "extra-model-first", "bucket-view"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep
