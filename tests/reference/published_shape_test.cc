// Rows of a published table that are matched in shape: another program is measured, and only the
// meaning of a value must match.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "reference/published_table.h"

namespace lockstep {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

PublishedValue row(PublishedQuantity quantity, std::int64_t step, int rank,
                   const std::string& printed) {
  PublishedValue value;
  value.world_size = 2;
  value.quantity = quantity;
  value.tensor = "*";
  value.step = step;
  value.rank = rank;
  value.printed = printed;
  value.definition = "in shape: of another model";
  return value;
}

/// Whether the last of `rows` matches these measurements; one list of values per row.
bool is_last_met(const std::vector<PublishedValue>& rows,
                 const std::vector<std::vector<double>>& measured, bool synced = false) {
  const TableComparison comparison = compare(
      {"one", "one.csv", rows}, [&](const PublishedValue& value) -> std::optional<Measured> {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const bool is_it = rows[i].step == value.step && rows[i].rank == value.rank;
          if (is_it && !measured[i].empty()) return Measured{measured[i], synced};
        }
        return std::nullopt;
      });
  EXPECT_EQ(comparison.in_shape, comparison.met);
  EXPECT_EQ(comparison.values, static_cast<std::int64_t>(rows.size()));
  for (const Unmet& unmet : comparison.unmet) {
    if (unmet.published.step == rows.back().step && unmet.published.rank == rows.back().rank) {
      return false;
    }
  }
  return true;
}

bool is_drift_met(const std::string& before, const std::string& printed, double measured_before,
                  double measured) {
  return is_last_met(
      {row(PublishedQuantity::drift, 0, -1, before), row(PublishedQuantity::drift, 1, -1, printed)},
      {{measured_before}, {measured}});
}

bool is_norm_met(const std::string& of_rank_0, const std::string& printed,
                 const std::vector<double>& measured) {
  return is_last_met(
      {row(PublishedQuantity::norm, 0, 0, of_rank_0), row(PublishedQuantity::norm, 0, 1, printed)},
      {measured, measured});
}

TEST(InShape, BeginsTheDefinition) {
  PublishedValue value;
  value.definition = "in shape: whatever";
  EXPECT_TRUE(value.is_met_in_shape());
  value.definition = "as is, in shape: whatever";
  EXPECT_FALSE(value.is_met_in_shape());
}

TEST(InShape, OfSyncedIsWhetherAllBitsAreTheSame) {
  const auto is_met = [](const std::string& printed, bool synced) {
    return is_last_met({row(PublishedQuantity::synced, 0, -1, printed)}, {{1, 1}}, synced);
  };
  EXPECT_TRUE(is_met("True", true));
  EXPECT_TRUE(is_met("False", false));
  EXPECT_FALSE(is_met("True", false)) << "equal norms are not equal bits";
  EXPECT_FALSE(is_met("False", true));
}

TEST(InShape, OfADriftIsWhetherItIsZero) {
  EXPECT_TRUE(is_drift_met("0.000e+00", "0.000e+00", 0, 0));
  EXPECT_TRUE(is_drift_met("0.000e+00", "1.769e-04", 0, 7));
  EXPECT_FALSE(is_drift_met("0.000e+00", "0.000e+00", 0, 1e-30));
  EXPECT_FALSE(is_drift_met("0.000e+00", "1.769e-04", 0, 0));
}

TEST(InShape, OfADriftIsWhetherItGrows) {
  EXPECT_TRUE(is_drift_met("1.769e-04", "3.611e-04", 0.5, 0.6));
  EXPECT_FALSE(is_drift_met("1.769e-04", "3.611e-04", 0.5, 0.5));
  EXPECT_FALSE(is_drift_met("1.769e-04", "3.611e-04", 0.5, 0.4));
  EXPECT_TRUE(is_drift_met("3.611e-04", "1.769e-04", 0.5, 0.4));
  EXPECT_FALSE(is_drift_met("3.611e-04", "1.769e-04", 0.5, 0.6));
}

TEST(InShape, OfADriftWithoutAnEarlierRowIsWhetherItIsZero) {
  const auto is_met = [](const std::string& printed, double measured) {
    return is_last_met({row(PublishedQuantity::drift, 3, -1, printed)}, {{measured}});
  };
  EXPECT_TRUE(is_met("1.0e-04", 5));
  EXPECT_FALSE(is_met("1.0e-04", 0));
  EXPECT_TRUE(is_met("0.0", 0));
}

TEST(InShape, OfANormIsWhetherItIsThatOfRank0) {
  EXPECT_TRUE(is_norm_met("28.969", "28.969", {3, 3}));
  EXPECT_FALSE(is_norm_met("28.969", "28.969", {3, 3.0000001}));
  EXPECT_TRUE(is_norm_met("29.180", "29.762", {3, 4}));
  EXPECT_TRUE(is_norm_met("29.180", "29.762", {4, 3})) << "whichever is larger";
  EXPECT_FALSE(is_norm_met("29.180", "29.762", {3, 3}));
}

TEST(InShape, OfANormOfRank0IsThatItIsThere) {
  const auto is_met = [](const std::string& printed, double measured) {
    return is_last_met({row(PublishedQuantity::norm, 0, 0, printed)}, {{measured, 1}});
  };
  EXPECT_TRUE(is_met("29.180", 3));
  EXPECT_FALSE(is_met("29.180", 0));
  EXPECT_FALSE(is_met("29.180", kNan));
}

TEST(InShape, OfANormOfRank0IsToldBesideNoOtherRank) {
  EXPECT_TRUE(is_last_met(
      {row(PublishedQuantity::norm, 0, 1, "28.969"), row(PublishedQuantity::norm, 0, 0, "28.969")},
      {{3, 4}, {3, 4}}));
}

TEST(InShape, OfAnElementIsWhetherItIsBelowThatOfTheFirstStep) {
  const auto is_met = [](const std::string& printed, double first, double measured) {
    return is_last_met(
        {row(PublishedQuantity::element, 3, 0, "50"), row(PublishedQuantity::element, 1, 0, "46.8"),
         row(PublishedQuantity::element, 2, 0, printed)},
        {{0.5}, {first}, {measured}});
  };
  EXPECT_TRUE(is_met("2.05", 4, 2)) << "first by its step, not by its place";
  EXPECT_FALSE(is_met("2.05", 4, 4));
  EXPECT_FALSE(is_met("2.05", 4, 5));
  EXPECT_TRUE(is_met("109.6", 4, 5));
  EXPECT_FALSE(is_met("109.6", 4, 3));
  EXPECT_FALSE(is_met("2.05", kNan, 2));
}

/// Whether the last of ten steps matches.
bool is_tenth_met(const std::vector<double>& printed, const std::vector<double>& measured) {
  std::vector<PublishedValue> rows;
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < printed.size(); ++i) {
    rows.push_back(row(PublishedQuantity::element, static_cast<std::int64_t>(i) + 1, 0,
                       std::to_string(printed[i])));
    values.push_back({measured[i]});
  }
  return is_last_met(rows, values);
}

TEST(InShape, OfAnElementIsWhetherItGoesOnFalling) {
  const std::vector<double> falls{46.8, 109.6, 40.1, 44.1, 32.5, 47.7, 60.6, 24.1, 64, 19.1};
  EXPECT_TRUE(is_tenth_met(falls, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}));
  EXPECT_FALSE(is_tenth_met(falls, {9, 1, 1, 1, 1, 8, 8, 8, 8, 2}))
      << "below the first, and rising again";
  EXPECT_FALSE(is_tenth_met(falls, {9, 1, 1, 1, 1, 4, 3, 2, kNan, 1}));
}

TEST(InShape, OfAnElementWithFewerStepsThanTenIsNotWhereItGoes) {
  EXPECT_TRUE(is_tenth_met({9, 8, 7, 6, 5, 4, 3, 2, 1}, {9, 1, 1, 1, 1, 8, 8, 8, 8}));
}

TEST(InShape, OfTheFirstElementIsThatItIsThere) {
  const auto is_met = [](double measured) {
    return is_last_met({row(PublishedQuantity::element, 1, 0, "46.8")}, {{measured}});
  };
  EXPECT_TRUE(is_met(5));
  EXPECT_FALSE(is_met(0));
  EXPECT_FALSE(is_met(kNan));
}

TEST(InShape, IsNotMetByWhatIsNotFiniteOrNotMeasured) {
  EXPECT_FALSE(is_drift_met("0.000e+00", "1.769e-04", 0, kNan));
  EXPECT_FALSE(is_drift_met("0.0", "0.1", 0, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(is_norm_met("29.180", "29.762", {3, kNan}));
  EXPECT_FALSE(is_last_met({row(PublishedQuantity::norm, 0, 0, "29.180")}, {{}}));
  EXPECT_FALSE(is_last_met({row(PublishedQuantity::norm, 0, 1, "29.180")}, {{3}}))
      << "rank 1 has no value";
}

TEST(InShape, IsNotMetBesideANeighbourThatWasNotMeasured) {
  EXPECT_FALSE(is_norm_met("28.969", "28.969", {kNan, 3}));
  EXPECT_FALSE(is_drift_met("1.0", "1.0", kNan, 1));
  EXPECT_FALSE(is_drift_met("1.0", "2.0", kNan, 1));
}

TEST(InShape, IsToldBesideTheSameTensorOfTheSameCell) {
  const auto is_met = [](const std::function<void(PublishedValue&)>& change) {
    std::vector<PublishedValue> rows{row(PublishedQuantity::drift, 0, -1, "2.0"),
                                     row(PublishedQuantity::drift, 1, -1, "1.0")};
    change(rows[0]);
    return is_last_met(rows, {{1}, {2}});
  };
  EXPECT_FALSE(is_met([](PublishedValue&) {}));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.scenario = "other"; }));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.variant = "other"; }));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.world_size = 3; }));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.kind = "other"; }));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.phase = "other"; }));
  EXPECT_TRUE(is_met([](PublishedValue& other) { other.tensor = "other"; }));
}

TEST(InShape, CountsItsRowsApart) {
  PublishedValue digit = row(PublishedQuantity::norm, 0, 0, "3.0");
  digit.definition = "as is";
  const PublishedValue shape = row(PublishedQuantity::norm, 1, 0, "29.180");
  const TableComparison comparison = compare({"one", "one.csv", {digit, shape}}, [](const auto&) {
    return Measured{{3}, false};
  });
  EXPECT_EQ(comparison.met, 2);
  EXPECT_EQ(comparison.in_shape, 1);
}

TEST(InShape, TellsWhatWasMeasuredAsThePublicationPrintsIt) {
  const PublishedValue drift = row(PublishedQuantity::drift, 0, -1, "0.000e+00");
  const TableComparison comparison = compare({"one", "one.csv", {drift}}, [](const auto&) {
    return Measured{{0.25}, false};
  });
  EXPECT_EQ(comparison.unmet.at(0).measured, "2.500e-01");
}

/// The tables of the pull request, without their headings.
struct PublishedStep {
  const char* variant;
  std::int64_t step;
  const char* norm_of_rank_0;
  const char* norm_of_rank_1;
  const char* synced;
  const char* drift;
};

constexpr PublishedStep kPipeline[] = {
    {"bypass", 0, "29.180", "29.762", "False", "0.000e+00"},
    {"bypass", 1, "30.274", "29.429", "False", "0.000e+00"},
    {"bypass", 2, "30.679", "29.582", "False", "1.769e-04"},
    {"bypass", 3, "28.949", "29.850", "False", "3.611e-04"},
    {"all-reduce-each", 0, "28.969", "28.969", "True", "0.000e+00"},
    {"all-reduce-each", 1, "29.689", "29.689", "True", "0.000e+00"},
    {"all-reduce-each", 2, "29.913", "29.913", "True", "0.000e+00"},
    {"all-reduce-each", 3, "29.223", "29.223", "True", "0.000e+00"},
};

TEST(OpenTslm49Pipeline, HoldsEveryValueOfThePublishedTables) {
  using Key = std::tuple<std::string, PublishedQuantity, std::int64_t, int>;
  std::map<Key, std::string> printed;
  for (const PublishedValue& value :
       read_published_table(published_table_file("opentslm-49-pipeline")).values) {
    EXPECT_EQ(value.scenario, "loss-on-unwrapped-module-pipeline");
    EXPECT_EQ(std::tie(value.world_size, value.tensor, value.step_base),
              std::make_tuple(2, "*", 0));
    const bool is_drift = value.quantity == PublishedQuantity::drift;
    EXPECT_EQ(value.kind, is_drift ? "parameter" : "gradient");
    EXPECT_EQ(value.phase, is_drift ? "pre_forward" : "pre_step");
    EXPECT_TRUE(value.is_met_in_shape());
    EXPECT_THAT(value.source, testing::HasSubstr("OpenTSLM#49"));
    printed[{value.variant, value.quantity, value.step, value.rank}] = value.printed;
  }
  EXPECT_EQ(printed.size(), 32U);
  for (const PublishedStep& row : kPipeline) {
    EXPECT_EQ(printed.at({row.variant, PublishedQuantity::norm, row.step, 0}), row.norm_of_rank_0);
    EXPECT_EQ(printed.at({row.variant, PublishedQuantity::norm, row.step, 1}), row.norm_of_rank_1);
    EXPECT_EQ(printed.at({row.variant, PublishedQuantity::synced, row.step, -1}), row.synced);
    EXPECT_EQ(printed.at({row.variant, PublishedQuantity::drift, row.step, -1}), row.drift);
  }
}

TEST(Beside, IsCountedApartAndOnlyHasToBeMeasured) {
  PublishedValue beside = row(PublishedQuantity::element, 2, 0, "109.6");
  beside.definition = "beside: of another model";
  const auto compared = [&](const std::optional<Measured>& measured) {
    return compare(
        {"one", "one.csv", {row(PublishedQuantity::element, 1, 0, "46.8"), beside}},
        [&](const PublishedValue& value) { return value.step == 1 ? Measured{{4}} : measured; });
  };
  const TableComparison whole = compared(Measured{{3}});
  EXPECT_EQ(whole.values, 1);
  EXPECT_EQ(whole.met, 1);
  EXPECT_EQ(whole.beside, 1);
  EXPECT_TRUE(whole.unmet.empty());
  const TableComparison partial = compared(std::nullopt);
  EXPECT_EQ(partial.beside, 0);
  ASSERT_EQ(partial.unmet.size(), 1U);
  EXPECT_EQ(partial.unmet[0].measured, kNotMeasured);
}

}  // namespace
}  // namespace lockstep
