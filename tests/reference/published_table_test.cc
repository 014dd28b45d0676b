#include "reference/published_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <tuple>

#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader =
    "scenario,variant,world_size,quantity,kind,phase,tensor,element,step,step_base,rank,printed,"
    "definition,source\n";
constexpr const char* kElement =
    "bug,bypass,2,element,gradient,pre_step,weight,0,1,1,1,0.19431,as is,\"request #49, 2026\"\n";

/// A file in this test's own folder.
std::filesystem::path file_with(const std::string& text) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     (std::string("published-") + test->name() + ".csv");
  std::ofstream(path) << text;
  return path;
}

PublishedTable table_of(const std::string& rows) {
  const auto path = file_with(kHeader + rows);
  PublishedTable table = read_published_table(path);
  std::filesystem::remove(path);
  return table;
}

/// The reader's error for a table whose single row is `kElement` with `cell` in `column`.
std::string refusal(int column, const std::string& cell) {
  std::istringstream row(std::string(kElement).substr(0, std::string(kElement).find(",\"")));
  std::string changed;
  std::string part;
  for (int i = 0; std::getline(row, part, ','); ++i) changed += (i == column ? cell : part) + ",";
  try {
    table_of(changed + "source\n");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

PublishedValue printed_as(PublishedQuantity quantity, const std::string& printed) {
  PublishedValue value;
  value.world_size = 2;
  value.quantity = quantity;
  value.printed = printed;
  value.definition = "abs(g_r0 - g_r1) < 1e-9 on this element";
  return value;
}

TableComparison compare_one(const PublishedValue& published, std::vector<double> values,
                            bool bitwise = false) {
  return compare({"one", "one.csv", {published}}, [&](const PublishedValue&) {
    return Measured{values, bitwise};
  });
}

bool meets(const std::string& printed, double value) {
  return compare_one(printed_as(PublishedQuantity::element, printed), {value}).met == 1;
}

TEST(PublishedTable, ReadsARow) {
  const PublishedTable table = table_of(kElement);
  ASSERT_EQ(table.values.size(), 1u);
  const PublishedValue& value = table.values[0];
  EXPECT_EQ(std::tie(value.line, value.scenario, value.variant, value.world_size, value.quantity),
            std::make_tuple(2, "bug", "bypass", 2, PublishedQuantity::element));
  EXPECT_EQ(std::tie(value.kind, value.phase, value.tensor, value.element, value.step),
            std::make_tuple("gradient", "pre_step", "weight", 0, 1));
  EXPECT_EQ(std::tie(value.step_base, value.rank, value.printed, value.definition, value.source),
            std::make_tuple(1, 1, "0.19431", "as is", "request #49, 2026"));
}

TEST(PublishedTable, NamesThePlaceOfWhatIsMalformed) {
  EXPECT_THAT(refusal(3, "elment"),
              HasSubstr("expected one of element, synced, drift, norm for quantity"));
  EXPECT_THAT(refusal(3, "elment"), HasSubstr(".csv:2:4: "));
  EXPECT_THAT(refusal(0, ""), HasSubstr(":2:1: expected a text for scenario, found nothing"));
  EXPECT_THAT(refusal(2, "0"), HasSubstr(":2:3: expected a whole number from 1 to"));
  EXPECT_THAT(refusal(4, "gradients"), HasSubstr("for kind"));
  EXPECT_THAT(refusal(5, "after"), HasSubstr("for phase"));
  EXPECT_THAT(refusal(7, "-1"), HasSubstr("for element"));
  EXPECT_THAT(refusal(8, "-1"), HasSubstr("from 1 to 2147483647 for step"));
  EXPECT_THAT(refusal(8, "0"), HasSubstr("for step"));
  EXPECT_THAT(refusal(8, "x"), HasSubstr("step"));
  EXPECT_THAT(refusal(9, "2"), HasSubstr("for step_base"));
  EXPECT_THAT(refusal(10, "2"), HasSubstr("expected a whole number from 0 to 1 for rank"));
  EXPECT_THAT(refusal(10, "-1"), HasSubstr("for rank"));
  EXPECT_THAT(refusal(11, "0.19x"), HasSubstr(":2:12: expected a finite number for printed"));
  EXPECT_THAT(refusal(11, "nan"), HasSubstr("expected a finite number"));
  EXPECT_THAT(refusal(11, "True"), HasSubstr("expected a finite number"));
  EXPECT_EQ(refusal(11, "0.19432"), "accepted");
}

TEST(PublishedTable, ReadsTheLimitOfADefinitionStrictly) {
  const auto with = [](const std::string& printed, const std::string& definition) {
    return "bug,bypass,2,synced,gradient,pre_step,weight,0,1,1,-1," + printed + "," + definition +
           ",source\n";
  };
  EXPECT_EQ(table_of(with("True", "abs(a - b) < 1e-9")).values.size(), 1u);
  EXPECT_EQ(table_of(with("False", "abs(a - b) < 0.5 on this element")).values.size(), 1u);
  for (const char* definition :
       {"abs(a - b) < ", "abs(a - b) < tiny", "abs(a - b) < 1e-9x", "abs(a - b) <= 1e-9",
        "a - b < 1e-9", "abs(a - b) < -1", "abs(a - b) < nan", "bitwise"}) {
    EXPECT_THROW(table_of(with("True", definition)), Error) << definition;
  }
  EXPECT_THROW(table_of(with("true", "abs(a - b) < 1e-9")), Error);
}

TEST(PublishedTable, WithoutAnyRowIsMalformed) { EXPECT_THROW(table_of(""), Error); }

TEST(PublishedTable, WithATornLastRowIsMalformed) {
  EXPECT_THROW(table_of(std::string(kElement) + "bug,bypass,2,elem"), Error);
}

TEST(PublishedTable, OffersTheNearestName) {
  EXPECT_EQ(published_table_file("opentslm-49-drift").filename(), "opentslm-49-drift.csv");
  try {
    published_table_file("opentslm-49-drfit");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'opentslm-49-drift'"));
  }
  EXPECT_THROW(published_table_file("../published/opentslm-49-drift"), Error);
}

TEST(TableComparison, IsToThePrintedDigit) {
  EXPECT_TRUE(meets("0.04043", 0.040434999));
  EXPECT_FALSE(meets("0.04043", 0.040435001));
  EXPECT_FALSE(meets("0.04043", 0.04042));
  EXPECT_TRUE(meets("-0.00963", -0.009634));
  EXPECT_TRUE(meets("3", 2.51));
  EXPECT_FALSE(meets("3.0", 2.51));
}

TEST(TableComparison, KeepsTheSignOfZeroAsPythonDoes) {
  EXPECT_TRUE(meets("-0.00000", -0.0));
  EXPECT_TRUE(meets("-0.00000", -1e-9));
  EXPECT_FALSE(meets("0.00000", -1e-9));
  EXPECT_TRUE(meets("0.00000", 0.0));
}

TEST(TableComparison, KnowsTheExponentForm) {
  EXPECT_TRUE(meets("1.769e-04", 1.7689e-4));
  EXPECT_FALSE(meets("1.769e-04", 1.7684e-4));
  EXPECT_TRUE(meets("0.000e+00", 0.0));
  EXPECT_TRUE(meets("1.5e+100", 1.5e100));
}

TEST(TableComparison, NeverMeetsWhatWasNotMeasured) {
  const auto nothing = [](const PublishedValue&) { return std::optional<Measured>(); };
  const PublishedValue published = printed_as(PublishedQuantity::element, "0.5");
  const TableComparison comparison = compare({"one", "one.csv", {published}}, nothing);
  EXPECT_EQ(comparison.values, 1);
  EXPECT_EQ(comparison.met, 0);
  ASSERT_EQ(comparison.unmet.size(), 1u);
  EXPECT_EQ(comparison.unmet[0].measured, "not measured");
  EXPECT_EQ(compare_one(published, {}).unmet.at(0).measured, "not measured");
  EXPECT_FALSE(meets("0.5", std::numeric_limits<double>::quiet_NaN()));
}

TEST(TableComparison, TakesTheValueOfTheRank) {
  PublishedValue published = printed_as(PublishedQuantity::element, "0.2");
  published.rank = 1;
  EXPECT_EQ(compare_one(published, {0.1, 0.2}).met, 1);
  EXPECT_EQ(compare_one(published, {0.2, 0.1}).unmet.at(0).measured, "0.1");
}

TEST(TableComparison, EvaluatesThePublishedDefinitionOfSynced) {
  const auto synced = printed_as(PublishedQuantity::synced, "True");
  EXPECT_EQ(compare_one(synced, {0.5, 0.5 + 9e-10}).met, 1);
  EXPECT_EQ(compare_one(synced, {0.5 + 9e-10, 0.5}).met, 1);
  EXPECT_EQ(compare_one(synced, {0.5, 0.5 + 2e-9}).unmet.at(0).measured, "False");
  EXPECT_EQ(compare_one(synced, {0, 1e-9}).unmet.at(0).measured, "False") << "less, not equal";
  EXPECT_EQ(compare_one(synced, {0.5, std::nan(""), 0.5}).unmet.at(0).measured, "False");
}

TEST(TableComparison, CountsWhereTheBitwiseAnswerIsAnother) {
  const auto synced = printed_as(PublishedQuantity::synced, "True");
  EXPECT_EQ(compare_one(synced, {0.5, 0.5 + 1e-10}, false).definitions_differ, 1);
  EXPECT_EQ(compare_one(synced, {0.5, 0.5}, true).definitions_differ, 0);
  const auto element = printed_as(PublishedQuantity::element, "0.5");
  EXPECT_EQ(compare_one(element, {0.5}, false).definitions_differ, 0);
}

using Key = std::tuple<std::string, PublishedQuantity, std::int64_t, int>;

std::map<Key, std::string> printed_values(const std::string& id) {
  std::map<Key, std::string> printed;
  for (const PublishedValue& value : read_published_table(published_table_file(id)).values) {
    EXPECT_EQ(value.scenario, "loss-on-unwrapped-module");
    EXPECT_EQ(std::tie(value.world_size, value.tensor, value.element, value.step_base),
              std::make_tuple(2, "weight", 0, 1));
    EXPECT_THAT(value.source, HasSubstr("OpenTSLM#49"));
    EXPECT_TRUE(
        printed.emplace(Key{value.variant, value.quantity, value.step, value.rank}, value.printed)
            .second);
  }
  return printed;
}

/// The tables as the pull request's script printed them, without their headings.
constexpr const char* kGradients = R"(
   1 |     0.04043     0.19431   False |     0.11737     0.11737    True
   2 |    -0.13683    -0.05685   False |    -0.09659    -0.09659    True
   3 |     0.05426    -0.25685   False |    -0.10196    -0.10196    True
   4 |     0.02004    -0.01721   False |    -0.00963    -0.00963    True
   5 |    -0.21217    -0.45084   False |    -0.34623    -0.34623    True
)";
constexpr const char* kDrift = R"(
   1 |     0.050678 |     0.000000
   2 |     0.073750 |     0.000000
   3 |     0.093219 |     0.000000
   4 |     0.118547 |     0.000000
   5 |     0.132573 |     0.000000
)";

TEST(OpenTslm49, HoldsEveryGradientOfThePublishedTable) {
  const auto printed = printed_values("opentslm-49-gradients");
  EXPECT_EQ(printed.size(), 30u);
  std::istringstream text(kGradients);
  std::int64_t step = 0;
  for (std::string bar, first, second, synced; text >> step;) {
    for (const char* variant : {"bypass", "all-reduce-each"}) {
      text >> bar >> first >> second >> synced;
      EXPECT_EQ(printed.at({variant, PublishedQuantity::element, step, 0}), first);
      EXPECT_EQ(printed.at({variant, PublishedQuantity::element, step, 1}), second);
      EXPECT_EQ(printed.at({variant, PublishedQuantity::synced, step, -1}), synced);
    }
  }
  EXPECT_EQ(step, 5);
}

TEST(OpenTslm49, HoldsEveryDriftOfThePublishedTable) {
  const auto printed = printed_values("opentslm-49-drift");
  EXPECT_EQ(printed.size(), 10u);
  std::istringstream text(kDrift);
  std::int64_t step = 0;
  for (std::string bar, drift; text >> step;) {
    for (const char* variant : {"bypass", "all-reduce-each"}) {
      text >> bar >> drift;
      EXPECT_EQ(printed.at({variant, PublishedQuantity::drift, step, -1}), drift);
    }
  }
  EXPECT_EQ(step, 5);
}

}  // namespace
}  // namespace lockstep
