#include "harness/verdict/repetition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CellRecord run_of(int ranks) {
  CellRecord cell;
  cell.processes = ranks;
  for (int rank = 0; rank < ranks; ++rank) cell.exits.push_back({.rank = rank});
  cell.results = {{.claim = kAgree, .verdict = Verdict::holds}};
  return cell;
}

Finding finding_in(std::int64_t step, const std::string& tensor) {
  Finding finding;
  finding.claim = kAgree;
  finding.step = step;
  finding.tensor = tensor;
  finding.groups = {{0}, {1}};
  finding.sentence = tensor + " differs in step " + std::to_string(step) + ".";
  return finding;
}

void find_in(CellRecord& cell, const Finding& finding) {
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].findings.push_back(finding);
}

/// Two ranks with one tensor in each of two steps.
void observe(LiteralEvidence& files) {
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 1; step <= 2; ++step) files.add(rank, step, "w", {1, 2});
  }
}

Check check_of(CellRecord again, const StepReader& evidence, const CellRecord& first,
               const StepReader& first_evidence) {
  check_repetition(again, &evidence, first, &first_evidence);
  EXPECT_EQ(again.checks.size(), 1U);
  EXPECT_EQ(again.checks.at(0).promise, "repeats the first run");
  EXPECT_EQ(again.verdict, again.checks.at(0).result == Check::Result::as_promised
                               ? CellVerdict::as_expected
                               : CellVerdict::missed);
  return again.checks.at(0);
}

class Repetition : public testing::Test {
 protected:
  /// After the first call the files do not change.
  Check check() {
    if (!evidence_) evidence_ = again_files_.write();
    if (!first_evidence_) first_evidence_ = first_files_.write();
    return check_of(again_, *evidence_, first_, *first_evidence_);
  }

  CellRecord first_ = run_of(2);
  CellRecord again_ = run_of(2);
  LiteralEvidence first_files_{2};
  LiteralEvidence again_files_{2};

 private:
  std::optional<StepReader> evidence_;
  std::optional<StepReader> first_evidence_;
};

TEST_F(Repetition, OfTheSameIsAsPromised) {
  observe(first_files_);
  observe(again_files_);
  find_in(first_, finding_in(2, "w"));
  find_in(again_, finding_in(2, "w"));
  EXPECT_EQ(check(), (Check{"repeats the first run", Check::Result::as_promised, ""}));
}

TEST_F(Repetition, WithAnotherValueNamesRankStepAndTensor) {
  observe(first_files_);
  observe(again_files_);
  first_files_.add(1, 3, "v", {1, 2});
  again_files_.add(1, 3, "v", {1, 3});
  EXPECT_EQ(check().result, Check::Result::missed);
  EXPECT_EQ(check().text, "rank 1 observed a different v in step 3");
}

TEST_F(Repetition, NamesTheFirstOtherObservation) {
  first_files_.add(0, 1, "a", {1});
  first_files_.add(0, 2, "b", {1});
  again_files_.add(0, 1, "a", {2});
  again_files_.add(0, 2, "b", {2});
  EXPECT_EQ(check().text, "rank 0 observed a different a in step 1");
}

TEST_F(Repetition, WithMoreOrFewerObservationsNamesTheFirstOfThem) {
  observe(first_files_);
  observe(again_files_);
  again_files_.add(1, 3, "more", {1});
  EXPECT_EQ(check().text, "rank 1 observed a different more in step 3");
}

TEST_F(Repetition, WithFewerObservationsNamesTheFirstThatIsMissing) {
  observe(first_files_);
  first_files_.add(0, 3, "less", {1});
  observe(again_files_);
  EXPECT_EQ(check().text, "rank 0 observed a different less in step 3");
}

TEST_F(Repetition, WithOtherFindingsTellsBoth) {
  find_in(first_, finding_in(2, "w"));
  find_in(again_, finding_in(1, "w"));
  EXPECT_EQ(check().result, Check::Result::missed);
  EXPECT_EQ(check().text,
            "the first run found: w differs in step 2.; this one: w differs in step 1.");
}

TEST_F(Repetition, WithAFindingMoreOrLessSaysNothingMore) {
  find_in(again_, finding_in(1, "w"));
  EXPECT_EQ(check().text, "the first run found: nothing more; this one: w differs in step 1.");
  find_in(first_, finding_in(1, "w"));
  EXPECT_EQ(check().result, Check::Result::as_promised);
  find_in(first_, finding_in(2, "v"));
  EXPECT_EQ(check().text, "the first run found: v differs in step 2.; this one: nothing more");
}

TEST_F(Repetition, HoldsClaimStepTensorGroupsAndRatioOfAFinding) {
  const Finding finding = finding_in(1, "w");
  find_in(first_, finding);
  std::vector<Finding> others(5, finding);
  others[0].claim = kEqual;
  others[1].step = 2;
  others[2].tensor = "v";
  others[3].groups = {{0, 1}};
  others[4].ratio = 0.5;
  for (const Finding& other : others) {
    again_.results[0].findings = {other};
    EXPECT_EQ(check().result, Check::Result::missed);
  }
  Finding same = finding;
  same.sentence = "in other words";
  again_.results[0].findings = {same};
  EXPECT_EQ(check().result, Check::Result::as_promised);
}

TEST_F(Repetition, OfRanksThatDiedHoldsTheFindingsOnly) {
  observe(first_files_);
  again_files_.add(0, 1, "other", {7});
  for (CellRecord* cell : {&first_, &again_}) cell->exits[1].kind = ExitKind::signalled;
  EXPECT_EQ(check().result, Check::Result::as_promised);
  find_in(again_, finding_in(1, "w"));
  EXPECT_EQ(check().result, Check::Result::missed);
}

TEST_F(Repetition, OfACellThatWasNotRunIsNotChecked) {
  observe(first_files_);
  const StepReader evidence = first_files_.write();
  check_repetition(again_, nullptr, first_, &evidence);
  check_repetition(again_, &evidence, first_, nullptr);
  EXPECT_TRUE(again_.checks.empty());
}

TEST_F(Repetition, DoesNotHideAnEarlierCheck) {
  observe(first_files_);
  observe(again_files_);
  again_.checks = {{"breaks ranks finish", Check::Result::false_alarm, "why"}};
  const StepReader evidence = again_files_.write();
  const StepReader first_evidence = first_files_.write();
  check_repetition(again_, &evidence, first_, &first_evidence);
  EXPECT_EQ(again_.verdict, CellVerdict::false_alarm);
}

}  // namespace
}  // namespace lockstep
