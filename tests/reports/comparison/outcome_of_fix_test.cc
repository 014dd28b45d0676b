#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/comparison/comparison_report.h"
#include "tests/reports/comparison/literal_comparisons.h"

namespace lockstep {
namespace {

using enum Likeness;
using enum SideOutcome;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Fix, HasAnOutcomeByBothComparisons) {
  const auto outcome = [](Likeness before, Likeness after) {
    return outcome_of_fix(literal_fix(literal_pair(before), literal_pair(after)));
  };
  EXPECT_EQ(outcome(different, rounding), FixOutcome::fixed);
  EXPECT_EQ(outcome(different, different), FixOutcome::still_there);
  EXPECT_EQ(outcome(equal, different), FixOutcome::new_fault);
  EXPECT_EQ(outcome(undecided, different), FixOutcome::new_fault);
  EXPECT_EQ(outcome(undecided, equal), FixOutcome::not_shown);
  EXPECT_EQ(outcome(different, undecided), FixOutcome::not_decided);
}

/// Before the fix the job may go wrong in any way.
TEST(Fix, IsShownByWhateverEndedTheJobBefore) {
  for (const SideOutcome before : {raised, out_of_memory, hung, died, ranks_differ, not_finite}) {
    const Comparison fix = literal_fix(literal_pair(equal, before), literal_pair(rounding));
    EXPECT_EQ(outcome_of_fix(fix), FixOutcome::fixed) << name(before);
    EXPECT_EQ(status_of(fix), ExitStatus::as_expected);
    EXPECT_EQ(heading_of(fix), "FIXED: equal up to rounding in 2 steps, 1 to 2");
    EXPECT_THAT(rows_of(fix).at(1).outcome, HasSubstr("ended so: " + std::string(name(before))));
  }
}

TEST(Fix, IsNoneIfTheJobStillGoesWrong) {
  for (const SideOutcome after : {raised, out_of_memory, hung, ranks_differ, not_finite}) {
    Comparison fix = literal_fix(literal_pair(different), literal_pair(equal, after));
    EXPECT_EQ(outcome_of_fix(fix), FixOutcome::still_there) << name(after);
    EXPECT_EQ(status_of(fix), ExitStatus::failed);
    fix = literal_fix(literal_pair(equal), literal_pair(equal, after));
    EXPECT_EQ(outcome_of_fix(fix), FixOutcome::new_fault) << name(after);
    EXPECT_EQ(status_of(fix), ExitStatus::failed);
  }
}

/// A signal may come from outside.
TEST(Fix, IsNotDecidedIfTheJobWasKilledAfterIt) {
  Comparison fix = literal_fix(literal_pair(different), literal_pair(equal, died));
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_decided);
  EXPECT_EQ(status_of(fix), ExitStatus::undecided);
  fix = literal_fix(literal_pair(equal, died), literal_pair(equal, died));
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::still_there);
  fix = literal_fix(literal_pair(different), literal_pair(different, died));
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::still_there);
}

TEST(Fix, IsNotDecidedNextToAReferenceThatRaised) {
  Comparison fix = literal_fix(literal_pair(different), literal_pair(equal));
  for (ComparedPair& pair : fix.pairs) pair.sides[0].outcome = raised;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_decided);
}

/// A fix whose values say FIXED.
Comparison validated_fix() {
  Comparison fix = literal_fix(literal_pair(different), literal_pair(equal));
  fix.code.emplace();
  fix.code->states = {"main", "fix"};
  fix.code->changed = fix.code->executed = {"src/a.py"};
  fix.code->is_seen = true;
  return fix;
}

TEST(Fix, IsOneOfTheCodeThatWasExecuted) {
  Comparison fix = validated_fix();
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::fixed);
  fix.code->shared = {"src/a.py"};
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::refused);
  EXPECT_EQ(status_of(fix), ExitStatus::undecided);
  EXPECT_THAT(heading_of(fix), StartsWith("REFUSED: both sides imported src/a.py of one folder"));
}

TEST(Fix, IsNotShownByCodeThatNobodyExecuted) {
  Comparison fix = validated_fix();
  fix.code->executed.clear();
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_shown);
  EXPECT_EQ(status_of(fix), ExitStatus::failed);
  EXPECT_EQ(heading_of(fix), "NOT SHOWN: the changed files were never imported: src/a.py");
  fix.code->has_other_files = true;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::fixed) << "they may have been read";
  fix.code->has_other_files = false;
  fix.code->is_seen = false;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::fixed) << "nobody said what was executed";
}

TEST(Fix, IsNotDecidedWithoutAMeasureInBothStates) {
  Comparison fix = validated_fix();
  fix.code->changes_reference = true;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_decided);
  EXPECT_EQ(status_of(fix), ExitStatus::undecided);
  EXPECT_THAT(heading_of(fix), HasSubstr("the reference itself trains otherwise"));
  fix = validated_fix();
  fix.code->reference_before = raised;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_decided);
  EXPECT_THAT(heading_of(fix), HasSubstr("the reference fails with the code before the fix, too"));
  fix.pairs[1] = literal_fix(literal_pair(different), literal_pair(different)).pairs[1];
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::still_there) << "whatever the measure is before";
}

TEST(Fix, IsNotDecidedIfTheFaultAfterItDoesNotRepeat) {
  Comparison fix = validated_fix();
  fix.pairs[1] = literal_pair(different);
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::still_there);
  fix.code->unrepeatable = Unrepeatable::after;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_decided);
  EXPECT_EQ(status_of(fix), ExitStatus::undecided);
  EXPECT_THAT(heading_of(fix), StartsWith("NOT DECIDED: after the fix, two runs of the same"));
  fix.pairs[1] = literal_pair(equal);
  fix.code->unrepeatable = Unrepeatable::before;
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::fixed) << "the reference repeats, and so does B";
  EXPECT_THAT(details_of(fix), testing::Contains(HasSubstr("before the fix, two runs")));
}

TEST(Fix, IsNotShownIfNoChangedLineWasExecuted) {
  Comparison fix = validated_fix();
  fix.pairs[0] = fix.pairs[1];
  fix.code->lines = {3, 1, {"src/a.py:7-8"}};
  EXPECT_THAT(heading_of(fix), StartsWith("NOT SHOWN BEFORE THE FIX: equal"));
  EXPECT_THAT(details_of(fix), testing::Contains("of 3 changed lines of code in them, ranks "
                                                 "executed 1, not src/a.py:7-8"));
  fix.code->lines = {2, 0, {"src/a.py:7-8"}};
  EXPECT_EQ(outcome_of_fix(fix), FixOutcome::not_shown);
  EXPECT_EQ(heading_of(fix), "NOT SHOWN: no rank executed a changed line: src/a.py:7-8");
}

/// The state before, A, and the state after, B. Whatever B does, nobody knows what is right.
TEST(Fix, IsNeverCalledFixedWithoutAReference) {
  const auto fix = [](SideOutcome before, SideOutcome after, Likeness likeness) {
    Comparison comparison;
    comparison.purpose = ComparisonPurpose::fix;
    comparison.pairs = {literal_pair(likeness, after)};
    comparison.pairs[0].sides[0].outcome = before;
    if (before != trained)
      comparison.pairs[0].sides[0].fault =
          literal_ending(FindingKind::rank_raised_error, "raised an error in step 1: twice");
    comparison.pairs[0].result = {};
    conclude(comparison.pairs[0]);
    return comparison;
  };
  for (const SideOutcome fault : {raised, out_of_memory, hung, died, ranks_differ, not_finite}) {
    const Comparison gone = fix(fault, trained, equal);
    EXPECT_EQ(outcome_of_fix(gone), FixOutcome::not_decided) << name(fault);
    EXPECT_EQ(status_of(gone), ExitStatus::undecided);
    EXPECT_EQ(outcome_of_fix(fix(fault, fault, equal)), FixOutcome::still_there) << name(fault);
    EXPECT_EQ(outcome_of_fix(fix(trained, fault, equal)), FixOutcome::new_fault) << name(fault);
    EXPECT_EQ(status_of(fix(trained, fault, equal)), ExitStatus::failed);
  }
  const Comparison gone = fix(raised, trained, equal);
  EXPECT_THAT(heading_of(gone), StartsWith("NOT DECIDED: the fault is gone. Whether the"));
  EXPECT_THAT(heading_of(gone), HasSubstr("--reference 'python train.py'"));
  EXPECT_THAT(rows_of(gone).at(0).outcome, HasSubstr("raised an error in step 1"));
  EXPECT_EQ(rows_of(gone).at(1).outcome, "trained");
  const Comparison other = fix(trained, trained, different);
  EXPECT_EQ(outcome_of_fix(other), FixOutcome::not_decided);
  EXPECT_THAT(heading_of(other), HasSubstr("the states train otherwise: DIFFERENT: "));
  EXPECT_EQ(outcome_of_fix(fix(trained, trained, undecided)), FixOutcome::not_decided);
  const Comparison same = fix(trained, trained, equal);
  EXPECT_EQ(outcome_of_fix(same), FixOutcome::not_shown);
  EXPECT_EQ(status_of(same), ExitStatus::failed);
  EXPECT_THAT(heading_of(same), StartsWith("NOT SHOWN: both states train alike: equal"));
}

TEST(Fix, OfAMatrixIsShownByOneCell) {
  Comparison shown = validated_fix(), other = validated_fix();
  shown.cell = "ranks=2";
  other.cell = "ranks=1";
  other.pairs = literal_fix(literal_pair(equal), literal_pair(equal)).pairs;
  EXPECT_EQ(outcome_of_fixes({other, shown}), FixOutcome::fixed);
  EXPECT_EQ(status_of(std::vector{other, shown}), ExitStatus::as_expected);
  EXPECT_EQ(heading_of(std::vector{other, shown}), "FIXED in 1 of 2 cells, NOT SHOWN in 1");
  EXPECT_EQ(status_of(std::vector{other, other}), ExitStatus::failed);
  EXPECT_EQ(outcome_of_fixes({other, other}), FixOutcome::not_shown);
  Comparison wrong = validated_fix();
  wrong.cell = "ranks=4";
  wrong.pairs = literal_fix(literal_pair(different), literal_pair(different)).pairs;
  EXPECT_EQ(outcome_of_fixes({shown, wrong}), FixOutcome::still_there);
  EXPECT_EQ(status_of(std::vector{shown, wrong}), ExitStatus::failed);
  EXPECT_THAT(heading_of(std::vector{shown, wrong}),
              StartsWith("STILL THERE in 1 of 2 cells, FIXED in 1. ranks=4"));
  Comparison none;
  none.purpose = ComparisonPurpose::fix;
  none.failure = "the validation was interrupted";
  EXPECT_EQ(status_of(std::vector{shown, none}), ExitStatus::undecided);
  EXPECT_FALSE(outcome_of_fixes({none}));
  EXPECT_EQ(fix_rows_of({shown, none}).at(1).after, "the validation was interrupted");
}

TEST(Comparison, DiffersIfAnErrorEndedB) {
  Comparison comparison;
  comparison.pairs = {literal_pair(equal, raised)};
  EXPECT_EQ(status_of(comparison), ExitStatus::failed);
  EXPECT_THAT(heading_of(comparison), StartsWith("DIFFERENT: B ended so: raised"));
  for (const std::string& line : lines_of(comparison)) {
    EXPECT_THAT(line, Not(HasSubstr("samples"))) << "nothing could be compared";
    EXPECT_THAT(line, Not(HasSubstr("only in A")));
  }
  comparison.pairs[0].sides[0].outcome = raised;  // so did A
  conclude(comparison.pairs[0]);
  EXPECT_EQ(status_of(comparison), ExitStatus::not_applicable);
  comparison.pairs = {literal_pair(equal, out_of_memory)};
  EXPECT_THAT(heading_of(comparison), HasSubstr("its values until then: equal, bit for bit"));
  comparison.pairs[0].sides[1].fault->sentence = "ended so. It is out of memory.";
  EXPECT_THAT(heading_of(comparison), HasSubstr("out of memory; its values until then: "));
  comparison.pairs = {literal_pair(equal, died)};  // perhaps by its user
  EXPECT_EQ(status_of(comparison), ExitStatus::undecided);
  EXPECT_THAT(lines_of(comparison), testing::Contains("B: ended so: died"));
}

/// Of the ending and of the values, if they differ, too.
TEST(Comparison, SaysOnceWhatExplainsIt) {
  const auto meaning_of = [](const ComparedPair& pair) {
    std::string text;
    for (const std::string& line : lines_of(pair)) {
      if (line.starts_with("What it means")) text += line + "\n";
    }
    return text;
  };
  ComparedPair pair = literal_pair(different, out_of_memory);
  EXPECT_EQ(meaning_of(pair),
            "What it means: lockstep explain rank-raised-error, lockstep explain "
            "scaled-by-world-size\n");
  pair.sides[1].fault->kind = FindingKind::scaled_by_world_size;
  EXPECT_EQ(meaning_of(pair), "What it means: lockstep explain scaled-by-world-size\n");
}

TEST(Comparison, IsAsExpectedByWhatBDoes) {
  using enum ComparisonExpectation;
  const auto status = [](const ComparedPair& pair, ComparisonExpectation expected) {
    Comparison comparison;
    comparison.expected = expected;
    comparison.pairs = {pair};
    return static_cast<int>(status_of(comparison));
  };
  for (const ComparisonExpectation expected : {bug, diverges, not_finite, raises, hangs}) {
    EXPECT_EQ(status(literal_pair(equal), expected), 1) << name(expected);
    EXPECT_EQ(status(literal_pair(undecided), expected), 2) << name(expected);
    const bool is_shown = expected == bug || expected == diverges;
    EXPECT_EQ(status(literal_pair(different), expected), is_shown ? 0 : 1) << name(expected);
  }
  EXPECT_EQ(status(literal_pair(equal, raised), raises), 0);
  EXPECT_EQ(status(literal_pair(equal, raised), bug), 0);
  EXPECT_EQ(status(literal_pair(equal, raised), hangs), 1);
  EXPECT_EQ(status(literal_pair(equal, hung), hangs), 0);
  EXPECT_EQ(status(literal_pair(equal, hung), diverges), 1);
  ComparedPair pair = literal_pair(different);
  pair.steps[1].tensors[0].kind = FindingKind::not_finite;
  EXPECT_EQ(status(pair, not_finite), 0);
  EXPECT_EQ(status(pair, diverges), 1);
}

TEST(Comparison, WithARepetitionOnlyMeasures) {
  Comparison comparison;
  comparison.purpose = ComparisonPurpose::repetition;
  comparison.pairs = {literal_pair(different)};
  conclude_repetition(comparison.pairs[0]);
  EXPECT_EQ(status_of(comparison), ExitStatus::as_expected);
  EXPECT_THAT(heading_of(comparison), StartsWith("not reproducible bit for bit: "));
  comparison.pairs = {literal_pair(equal)};
  conclude_repetition(comparison.pairs[0]);
  EXPECT_EQ(heading_of(comparison), "reproducible: the repetition has the same bits");
}

TEST(Comparison, ThatWasNotMadeIsUndecided) {
  Comparison comparison;
  comparison.failure = "the job was not compared: runs/good is gone";
  EXPECT_EQ(status_of(comparison), ExitStatus::undecided);
  EXPECT_EQ(heading_of(comparison), "UNDECIDED: the job was not compared: runs/good is gone");
}

}  // namespace
}  // namespace lockstep
