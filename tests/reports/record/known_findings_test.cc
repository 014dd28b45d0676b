#include "reports/record/known_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/finding_key.h"
#include "tests/refusal.h"
#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A job whose ranks hold different gradients of `weight` and `bias` in its first step.
JobRecord diverging_job() {
  JobRecord job = literal_job("3f9c2a");
  Finding finding = literal_divergence();
  job.results[0].verdict = Verdict::violated;
  job.results[0].findings = {finding};
  job.symptom = literal_outcome(SymptomKind::ranks_differ, "ranks differ from step 1 on: weight");
  return job;
}

RunRecord run_of(const JobRecord& job) {
  RunRecord run;
  run.jobs = {job};
  return run;
}

class KnownFindingsTest : public testing::Test {
 protected:
  std::optional<KnownFindings> known(const std::string& text) const {
    std::ofstream(file_) << text;
    return KnownFindings::read(file_);
  }

  std::optional<KnownFindings> known(const std::vector<std::string>& keys) const {
    std::string text = "# issue 12\n\n";
    for (const std::string& key : keys) text += "  " + key + "\r\n";
    return known(text);
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "known.txt";
};

TEST_F(KnownFindingsTest, DoNotFail) {
  const RunRecord run = run_of(diverging_job());
  EXPECT_EQ(exit_status(run), ExitStatus::failed);
  const auto listed = known(keys_of(run));
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::as_expected);
  EXPECT_THAT(known_in_words(run, listed), HasSubstr("Known findings: 2 of 2 found here are in "));
}

TEST_F(KnownFindingsTest, FailIfAnotherTensorDiffersInTheSameStep) {
  RunRecord run = run_of(diverging_job());
  const auto listed = known(keys_of(run));
  run.jobs[0].results[0].findings[0].tensors.push_back("head.weight");
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
  EXPECT_THAT(known_in_words(run, listed), HasSubstr("  new: gradients-differ | "));
  EXPECT_THAT(known_in_words(run, listed), HasSubstr("head.weight\n"));
}

TEST_F(KnownFindingsTest, OfAPatternAreThoseOfAllThatMatchIt) {
  RunRecord run = run_of(diverging_job());
  Finding& finding = run.jobs[0].results[0].findings[0];
  finding.tensors = {"a.lora_A.w", "b.lora_A.w"};
  finding.compared = 5;
  finding.pattern = "*.lora_A.*";
  const auto listed = known(keys_of(run));
  EXPECT_EQ(keys_of(run).size(), 1U);
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::as_expected);
  EXPECT_THAT(known_in_words(run, listed), Not(HasSubstr("not found")));
  finding.tensors = {"b.lora_A.w"};  // chance decides which of them differ first
  finding.pattern = "";
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::as_expected);
  EXPECT_THAT(known_in_words(run, listed), Not(HasSubstr("not found")));
  finding.tensors = {"b.lora_A.w", "b.lora_B.w"};
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
  finding.pattern = "*.w";
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
  EXPECT_THAT(known_in_words(run, listed), HasSubstr("listed, but not found: gradients-differ"));
  finding.tensors = {"a.lora_A.w"};
  finding.claim = agree_across_ranks(Kind::parameter, Phase::post_step);
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed) << "of another claim";
}

TEST_F(KnownFindingsTest, StayWhenTheArgumentsOfAJobChange) {
  RunRecord run = run_of(diverging_job());
  run.jobs[0].title = "train.py --port 1";
  run.jobs[0].label = "train.py";
  const auto listed = known(keys_of(run));
  run.jobs[0].title = "train.py --port 2";
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::as_expected);
  run.jobs[0].label = "eval.py";
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
}

TEST_F(KnownFindingsTest, FailIfAnotherClaimBreaks) {
  RunRecord run = run_of(diverging_job());
  const auto listed = known(keys_of(run));
  Finding killed;
  killed.claim = ranks_finish();
  killed.kind = FindingKind::rank_killed;
  run.jobs[0].results[1].verdict = Verdict::violated;
  run.jobs[0].results[1].findings = {killed};
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
}

TEST_F(KnownFindingsTest, LeaveUndecidedWhatTheyHide) {
  RunRecord run = run_of(diverging_job());
  run.jobs[0].results[1].verdict = Verdict::undecided;
  EXPECT_EQ(exit_status(without_known(run, known(keys_of(run)))), ExitStatus::undecided);
}

TEST_F(KnownFindingsTest, DoNotExcuseChangedFiles) {
  RunRecord run = run_of(diverging_job());
  run.jobs[0].faults = {"rank-0.csv was changed"};
  EXPECT_EQ(exit_status(without_known(run, known(keys_of(run)))), ExitStatus::failed);
}

TEST_F(KnownFindingsTest, ThatWereNotFoundAreTold) {
  const auto listed = known(std::vector<std::string>{
      "weights-differ | torchrun --nproc-per-node 2 train.py | agree_across_ranks parameter "
      "post_step | weight",
      "weights-differ | other.py | agree_across_ranks parameter post_step | weight"});
  const std::string text = known_in_words(run_of(literal_job("a")), listed);
  EXPECT_THAT(text, HasSubstr("  listed, but not found: weights-differ | torchrun "));
  EXPECT_THAT(text, Not(HasSubstr("other.py")));  // this run does not have that job
}

TEST_F(KnownFindingsTest, ExcuseACellOnlyForFalseAlarms) {
  RunRecord run;
  CellRecord cell = literal_cell("ddp", "wrapped", Role::fixed, CellVerdict::false_alarm);
  Finding finding = literal_divergence();
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].findings = {finding};
  cell.checks[0].result = Check::Result::false_alarm;
  run.cells = {cell};
  const auto listed = known(keys_of(run));
  EXPECT_EQ(exit_status(run), ExitStatus::failed);
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::as_expected);
  run.cells[0].checks[1].result = Check::Result::undecided;
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::undecided);
  run.cells[0].checks[1].result = Check::Result::missed;
  EXPECT_EQ(exit_status(without_known(run, listed)), ExitStatus::failed);
}

/// A fix has to show what was there before, so only what is there after it can be known.
TEST_F(KnownFindingsTest, ExcuseWhatIsThereAfterAFix) {
  const RunRecord fix =
      run_with(literal_fix(literal_pair(Likeness::different), literal_pair(Likeness::different)));
  ASSERT_EQ(exit_status(fix), ExitStatus::failed);
  const auto listed = known(lines_of_keys(keys_of(fix)));
  EXPECT_EQ(outcome_of_fix(without_known(fix, listed).comparisons[0]), FixOutcome::fixed);
  Comparison alone;
  alone.pairs = {literal_pair(Likeness::different)};
  EXPECT_EQ(exit_status(without_known(run_with(alone), listed)), ExitStatus::as_expected);
  alone.pairs[0].result.findings[0].tensors.push_back("another");
  EXPECT_EQ(exit_status(without_known(run_with(alone), listed)), ExitStatus::failed);
}

TEST_F(KnownFindingsTest, RefusesALineThatIsNoKey) {
  for (const char* line : {"gradients-differ", "gradient-differ | a | b", " | a", "weight"}) {
    EXPECT_THAT(refusal_of(file_, [&] { known(std::string("# fine\n") + line + "\n"); }),
                HasSubstr("--format keys"))
        << line;
  }
  EXPECT_THAT(refusal_of(file_, [&] { KnownFindings::read(folder_.path()); }),
              Not(HasSubstr("accepted")));
}

TEST_F(KnownFindingsTest, AnEmptyFileExcusesNothing) {
  const RunRecord run = run_of(diverging_job());
  EXPECT_EQ(exit_status(without_known(run, known(""))), ExitStatus::failed);
  EXPECT_EQ(exit_status(without_known(run, std::nullopt)), ExitStatus::failed);
  EXPECT_EQ(known_in_words(run, std::nullopt), "");
}

}  // namespace
}  // namespace lockstep
