#include "harness/verdict/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/verdict/expectation.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Claim kEqual = equal_reference(Kind::gradient, Phase::pre_step);

/// All ranks have twice the right gradients of both tensors, in steps 1 to 3.
Finding doubled() {
  return {.claim = kEqual,
          .step = 1,
          .tensor = "weight",
          .groups = {{0}, {1}},
          .ratio = 2.00001,
          .cosine = 1,
          .last_step = 3,
          .tensors = {"weight", "bias"}};
}

Pin pin_of_doubled() {
  return {.claim = kEqual,
          .steps = {1},
          .last_step = 3,
          .tensors = {"weight", "bi*"},
          .ratio = Range{1.998, 2.002},
          .cosine = Range{0.9999, 1.0001},
          .groups = {{0}, {1}}};
}

std::string departure_of(const Finding& finding, const Pin& pin = pin_of_doubled()) {
  return departure(pin, finding, {});
}

/// The result after `change` modified the pinned finding.
std::string departure_after(const std::function<void(Finding&)>& change) {
  Finding finding = doubled();
  change(finding);
  return departure_of(finding);
}

TEST(Pin, IsMetByTheFaultThatItDescribes) { EXPECT_EQ(departure_of(doubled()), ""); }

TEST(Pin, OfNothingIsMetByAnything) { EXPECT_EQ(departure_of(doubled(), {.claim = kEqual}), ""); }

TEST(Pin, SaysWhatDepartsFromIt) {
  EXPECT_EQ(departure_after([](Finding& f) { f.step = 2; }), "expected first step 1, found 2");
  EXPECT_EQ(departure_after([](Finding& f) { f.last_step = 2; }), "expected last step 3, found 2");
  EXPECT_EQ(departure_after([](Finding& f) { f.tensors.push_back("scale"); }),
            "expected only weight, bi*, found scale");
  EXPECT_EQ(departure_after([](Finding& f) { f.ratio = 1.7; }),
            "expected ratio from 1.998 to 2.002, found 1.7");
  EXPECT_EQ(departure_after([](Finding& f) { f.cosine = 0.5; }),
            "expected cosine from 0.9999 to 1.0001, found 0.5");
  EXPECT_EQ(departure_after([](Finding& f) { f.groups = {{1}}; }),
            "expected ranks [[0], [1]], found [[1]]");
}

TEST(Pin, NamesEveryPartThatDeparts) {
  EXPECT_EQ(departure_after([](Finding& f) {
              f.step = 2;
              f.ratio = f.cosine = std::nullopt;
            }),
            "expected first step 1, found 2; expected ratio from 1.998 to 2.002, found none; "
            "expected cosine from 0.9999 to 1.0001, found none");
}

TEST(Pin, IsNotMetByANumberThatIsNone) {
  EXPECT_NE(departure_after([](Finding& f) { f.ratio = std::nan(""); }), "");
}

TEST(Pin, MayAllowSeveralSteps) {
  Pin pin = pin_of_doubled();
  pin.steps = {2, 4};
  EXPECT_EQ(departure_of(doubled(), pin), "expected first step 2 or 4, found 1");
  pin.steps = {1, 4};
  EXPECT_EQ(departure_of(doubled(), pin), "");
}

/// As in findings about memory.
TEST(Pin, GoesByTheFirstTensorWhereNoOthersAreNamed) {
  EXPECT_EQ(departure_after([](Finding& f) { f.tensors.clear(); }), "");
  EXPECT_THAT(departure_after([](Finding& f) {
                f.tensors.clear();
                f.tensor = "scale";
              }),
              HasSubstr("found scale"));
}

TEST(Pin, OfAnAttributionIsMetByThatOneAlone) {
  const Pin pin{.claim = kEqual, .attribution = GradientAttribution::own};
  Finding finding = doubled();
  EXPECT_EQ(departure_of(finding, pin), "expected attribution own, found none");
  finding.attribution = GradientAttribution::mixture;
  EXPECT_EQ(departure_of(finding, pin), "expected attribution own, found mixture");
  finding.attribution = GradientAttribution::own;
  EXPECT_EQ(departure_of(finding, pin), "");
}

TEST(Pin, OfAMismatchIsMetByItsFaultAndItsCulprits) {
  const Pin pin{.claim = collectives_match(), .fault = MismatchFault::size, .culprits = {1}};
  CellRecord cell;
  const Finding finding{.claim = collectives_match()};
  EXPECT_EQ(departure(pin, finding, cell),
            "expected collective mismatch size, found none; expected culprits [1], "
            "found none");
  cell.mismatch.emplace().fault = MismatchFault::missing;
  cell.mismatch->culprits = {0};
  EXPECT_THAT(departure(pin, finding, cell), AllOf(HasSubstr("mismatch size, found missing"),
                                                   HasSubstr("culprits [1], found [0]")));
  cell.mismatch->fault = MismatchFault::size;
  cell.mismatch->culprits = {1};
  EXPECT_EQ(departure(pin, finding, cell), "");
}

/// A cell that declares doubled gradients, and whose run found `finding`.
CellRecord cell_that_found(const Finding& finding) {
  CellRecord cell;
  cell.processes = 2;
  cell.claims = {kEqual};
  cell.expectation = {.breaks = {kEqual}, .pins = {pin_of_doubled()}};
  ClaimResult result{.claim = kEqual, .verdict = Verdict::violated};
  result.findings = {finding};
  cell.results = {result};
  check_expectation(cell);
  return cell;
}

TEST(Expectation, WithAPinIsMetByThatFault) {
  EXPECT_EQ(cell_that_found(doubled()).verdict, CellVerdict::as_expected);
}

/// The scenario's body was replaced: each replacement breaks the declared claim with another fault.
TEST(Expectation, WithAPinIsMissedByAnotherFaultThatBreaksTheSameClaim) {
  Finding times_1_7 = doubled(), times_0_9 = doubled(), constant = doubled(), zero = doubled(),
          absent = doubled();
  times_1_7.ratio = 1.7;
  times_0_9.ratio = 0.9;
  constant.ratio = 0.4, constant.cosine = -0.1;
  zero.ratio = 0, zero.cosine = std::nullopt;
  absent.ratio = absent.cosine = std::nullopt;
  for (const Finding& finding : {times_1_7, times_0_9, constant, zero, absent}) {
    const CellRecord cell = cell_that_found(finding);
    EXPECT_EQ(cell.verdict, CellVerdict::missed);
    ASSERT_EQ(cell.checks.size(), 1U);
    EXPECT_THAT(cell.checks[0].text,
                AllOf(HasSubstr("it is violated by another fault: "), HasSubstr("ratio")));
  }
}

/// If all ranks failed, one of them is the pinned one.
TEST(Expectation, WithAPinIsMetByOneOfSeveralFindings) {
  CellRecord cell = cell_that_found(doubled());
  Finding other = doubled();
  other.step = 3;
  cell.results[0].findings = {other, doubled()};
  check_expectation(cell);
  EXPECT_EQ(cell.verdict, CellVerdict::as_expected);
  cell.results[0].findings = {other};
  check_expectation(cell);
  EXPECT_EQ(cell.verdict, CellVerdict::missed);
}

TEST(Expectation, OfAFaultHasToSayWhatItComesToAndByWhatItIsKnown) {
  const Pin pin = pin_of_doubled();
  EXPECT_THAT(open_part({}), HasSubstr("declares no symptom"));
  EXPECT_EQ(open_part({.symptom = SymptomKind::right}), "");
  EXPECT_EQ(open_part({.not_applicable = "needs 3 ranks"}), "");
  Expectation expectation{.breaks = {kEqual}, .symptom = SymptomKind::agree_but_wrong};
  EXPECT_THAT(open_part(expectation), HasSubstr("without a pin"));
  expectation.pins = {{.claim = kEqual, .steps = {1}}};
  EXPECT_THAT(open_part(expectation), HasSubstr("without a pin"));
  expectation.pins = {{.claim = kEqual, .ratio = pin.ratio}};
  EXPECT_THAT(open_part(expectation), HasSubstr("without a pin"));
  expectation.pins = {pin};
  EXPECT_EQ(open_part(expectation), "");
}

TEST(Expectation, OfAnErrorIsKnownByItsText) {
  Expectation expectation{.raises = {{.fragment = "ready twice"}}, .symptom = SymptomKind::raised};
  EXPECT_EQ(open_part(expectation), "");
  expectation.breaks = {kEqual};
  EXPECT_THAT(open_part(expectation), HasSubstr("without a pin"));
}

TEST(Expectation, PinsWhatItDeclaresBroken) {
  EXPECT_EQ(open_part({.symptom = SymptomKind::right, .pins = {pin_of_doubled()}}),
            "it pins 'gradients equal the reference' but does not declare it broken");
}

}  // namespace
}  // namespace lockstep
