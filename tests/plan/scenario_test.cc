#include "harness/scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "reports/base/error.h"
#include "tests/plan/literal_scenario.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// The error of `validate` for the literal scenario after `change`.
std::string objection_to(const std::function<void(Scenario&)>& change) {
  Scenario scenario = literal_scenario();
  change(scenario);
  try {
    validate(scenario);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
    return error.what();
  }
  return "accepted";
}

TEST(Worlds, AreAllFromTheLeastToTheMost) {
  EXPECT_THAT(worlds_from(2, 5), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(worlds_from(1).back(), kMostTriedRanks);
}

TEST(Worlds, AreToldAsARangeWhereNoneIsLeftOut) {
  Scenario scenario = literal_scenario();
  const auto told = [&](std::vector<int> worlds) {
    scenario.worlds = std::move(worlds);
    return worlds_in_words(scenario);
  };
  EXPECT_EQ(told({2, 3, 4}), "2 to 4");
  EXPECT_EQ(told({2, 4, 8}), "2, 4, 8");
  EXPECT_EQ(told({2, 3}), "2, 3");
  EXPECT_EQ(told({2}), "2");
}

struct Contradiction {
  const char* name;
  std::function<void(Scenario&)> change;
  const char* said;

  friend std::ostream& operator<<(std::ostream& out, const Contradiction& contradiction) {
    return out << contradiction.name;
  }
};

class Validate : public testing::TestWithParam<Contradiction> {};

TEST_P(Validate, ObjectsToAContradiction) {
  EXPECT_THAT(objection_to(GetParam().change),
              AllOf(HasSubstr("Internal error: scenario '"), HasSubstr(GetParam().said)));
}

INSTANTIATE_TEST_SUITE_P(
    Scenario, Validate,
    testing::Values(
        Contradiction{"NoId", [](Scenario& s) { s.id = ""; }, "no id"},
        Contradiction{"NoWorld", [](Scenario& s) { s.worlds = {}; }, "no world size"},
        Contradiction{"NoClaim", [](Scenario& s) { s.claims = {}; }, "no claim"},
        Contradiction{"NoBody", [](Scenario& s) { s.body = nullptr; }, "no body"},
        Contradiction{"NoExpectation", [](Scenario& s) { s.expect = nullptr; },
                      "'bug' is faulty, and nothing is expected of it"},
        Contradiction{"ValueSetThatItsAxisLacks",
                      [](Scenario& s) { s.variants[1].sets = "rate=swift"; },
                      "'fix' sets 'rate' to 'swift', which is no value of that axis"},
        Contradiction{"ConditionSetTwice", [](Scenario& s) { s.variants[1].sets = "way=a way=b"; },
                      "'fix' sets 'way' twice"},
        Contradiction{"NoVariant",
                      [](Scenario& s) {
                        s.variants = {};
                        s.axes = {};
                      },
                      "no variant"},
        Contradiction{"NoDevice", [](Scenario& s) { s.devices = {}; }, "no device"},
        Contradiction{"DeviceTwice",
                      [](Scenario& s) {
                        s.devices = {DeviceKind::sim, DeviceKind::cpu, DeviceKind::sim};
                      },
                      "the device 'sim' twice"},
        Contradiction{"AxisThatIsAnOption", [](Scenario& s) { s.axes[0].name = "device"; },
                      "an axis 'device', which --device chooses"},
        Contradiction{"AxisThatIsTheBackend", [](Scenario& s) { s.axes[0].name = "backend"; },
                      "an axis 'backend', which --backend chooses"},
        Contradiction{"VariantTwice", [](Scenario& s) { s.variants.push_back(s.variants[1]); },
                      "two variants 'fix'"},
        Contradiction{"AxisTwice", [](Scenario& s) { s.axes.push_back(s.axes[1]); },
                      "two axes 'tiles'"},
        Contradiction{"ValueTwice",
                      [](Scenario& s) { s.axes[1].values.push_back(s.axes[1].values[0]); },
                      "has a value twice"},
        Contradiction{"DefaultIsNoValue", [](Scenario& s) { s.axes[1].default_value = "3"; },
                      "the default value of axis 'tiles' is no value"},
        Contradiction{"AxisWithoutValues", [](Scenario& s) { s.axes[0].values = {}; },
                      "the default value of axis 'rate' is no value"},
        Contradiction{"AxisOfUnknownVariant",
                      [](Scenario& s) { s.axes[1].variants.push_back("bgu"); },
                      "axis 'tiles' of the unknown variant 'bgu'"},
        Contradiction{"UnknownReference", [](Scenario& s) { s.variants[2].reference = "specail"; },
                      "no variant 'specail'"},
        Contradiction{"ReferenceIsNone", [](Scenario& s) { s.variants[2].reference = "fix"; },
                      "'other' is compared with 'fix', which is no reference"},
        Contradiction{"ReferenceIsTheVariantItself",
                      [](Scenario& s) { s.variants[2].reference = "other"; },
                      "'other' is compared with 'other', which is no reference"},
        Contradiction{"ReferenceHasAReference",
                      [](Scenario& s) { s.variants[3].reference = "special"; }, "'special'"},
        Contradiction{"ReferenceDependsOnMore",
                      [](Scenario& s) { s.axes[1].variants.push_back("special"); },
                      "the reference of 'other' depends on the axis 'tiles', and it does not"},
        Contradiction{"FirstReferenceDependsOnMore",
                      [](Scenario& s) { s.axes[1].variants.push_back("plain"); },
                      "the reference of 'fix' depends on the axis 'tiles', and it does not"},
        Contradiction{"TableOfUnknownVariant",
                      [](Scenario& s) {
                        s.tables = {{.title = "Norms", .groups = {{"A", "bug"}, {"B", "bgu"}}}};
                      },
                      "table 'Norms' shows the unknown variant 'bgu'"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(Scenario, ThatContradictsNothingIsValid) {
  EXPECT_EQ(objection_to([](Scenario&) {}), "accepted");
  EXPECT_EQ(objection_to([](Scenario& s) { s.tables = {{.groups = {{"A", "bug"}}}}; }), "accepted");
}

TEST(Scenario, MayHaveNoReference) {
  EXPECT_EQ(objection_to([](Scenario& s) {
              s.variants.resize(2);
              s.axes.pop_back();
            }),
            "accepted");
}

TEST(Reference, OfAVariantIsTheOneItNamesElseTheFirst) {
  const Scenario scenario = literal_scenario();
  EXPECT_EQ(reference_of(scenario, scenario.variants[0])->name, "plain");
  EXPECT_EQ(reference_of(scenario, scenario.variants[2])->name, "special");
  EXPECT_EQ(reference_of(scenario, scenario.variants[3]), nullptr);
  EXPECT_EQ(reference_of(scenario, scenario.variants[4]), nullptr);
}

TEST(Axes, OfAVariantAreThoseOfAllAndItsOwnInTheirOrder) {
  const Scenario scenario = literal_scenario();
  const auto names = [&](std::size_t variant) {
    std::vector<std::string> all;
    for (const Axis* axis : axes_of(scenario, scenario.variants[variant])) {
      all.push_back(axis->name);
    }
    return all;
  };
  EXPECT_THAT(names(0), ElementsAre("rate", "tiles"));
  EXPECT_THAT(names(1), ElementsAre("rate"));
  EXPECT_THAT(names(2), ElementsAre("rate", "shapes"));
  EXPECT_THAT(names(4), ElementsAre("rate", "shapes"));
}

TEST(Axes, ThatAVariantSetsOrThatReferencesLackAreClosed) {
  Scenario scenario = literal_scenario();
  scenario.variants[0].sets = "rate=fast way=long";
  scenario.axes[0].in_reference = false;
  EXPECT_EQ(axes_of(scenario, scenario.variants[0]).size(), 1U);
  EXPECT_EQ(axes_of(scenario, scenario.variants[0]).front()->name, "tiles");
  EXPECT_TRUE(axes_of(scenario, scenario.variants[3]).empty());
}

TEST(Settings, AreConditionsAndTheirValues) {
  Scenario scenario = literal_scenario();
  scenario.variants[0].sets = "rate=slow way=long";
  const std::vector<AxisValue> settings = settings_of(scenario, scenario.variants[0]);
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(settings[0], (AxisValue{"rate", "slow"}));
  EXPECT_TRUE(settings[0].is_default);
  EXPECT_EQ(settings[1], (AxisValue{"way", "long"}));
  EXPECT_FALSE(settings[1].is_default);
}

TEST(Settings, ThatAreNoPairsAreRefused) {
  for (const char* words : {"rate", "rate=", "=fast", "rate=fast way"}) {
    EXPECT_THROW(Settings{words}, Error) << words;
  }
}

TEST(Reference, MayDependOnWhatItsVariantSets) {
  EXPECT_EQ(objection_to([](Scenario& s) {
              s.axes[1].variants.push_back("special");
              s.variants[2].sets = "tiles=4";
            }),
            "accepted");
}

TEST(Expectation, IsThePreconditionsThenTheVariantsThenTheScenarios) {
  Scenario scenario = literal_scenario();
  Cell cell;
  cell.variant = "bug";
  cell.role = Role::buggy;
  EXPECT_EQ(declared_expectation(scenario, cell).breaks.size(), 1U);
  scenario.variants[0].expect = [](const Cell&) { return Expectation{.meets = {"a table"}}; };
  EXPECT_THAT(declared_expectation(scenario, cell).meets, ElementsAre("a table"));
  scenario.precondition = [](const Cell&) { return "not here"; };
  EXPECT_EQ(declared_expectation(scenario, cell).not_applicable, "not here");
  EXPECT_TRUE(declared_expectation(scenario, cell).meets.empty());
}

}  // namespace
}  // namespace lockstep
