#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/job/job_record.h"
#include "reports/formats/annotations.h"
#include "reports/formats/job_report.h"
#include "reports/formats/renderer.h"
#include "reports/record/json.h"
#include "reports/record/result.h"
#include "tests/reports/comparison/literal_comparisons.h"

namespace lockstep {
namespace {

using enum ExpectedOutcome;

// Jobs as the judge leaves them.

JobRecord agreeing() {
  JobRecord job;
  job.id = "3f9c2a";
  job.title = "train.py";
  job.world_size = job.processes = 2;
  job.steps = {12, 1, 12};
  job.exits = {{.rank = 0, .step = 12}, {.rank = 1, .order = 1, .step = 12}};
  job.coverage.parameters = job.coverage.compared = 4;
  job.coverage.ranks = 2;
  job.command_status = 0;
  job.symptom.kind = SymptomKind::right;
  for (const Claim& claim : {agree_across_ranks(Kind::gradient, Phase::pre_step), ranks_finish()}) {
    job.claims.push_back(claim);
    ClaimResult& result = job.results.emplace_back();
    result.claim = claim;
    result.verdict = Verdict::holds;
    result.comparisons = 48;
  }
  return job;
}

JobRecord violated(JobRecord job, Claim claim, FindingKind kind, SymptomKind symptom) {
  if (is_about_agreement(claim)) {
    job.results.clear();
    job.claims.clear();
  }
  job.claims.push_back(claim);
  ClaimResult& result = job.results.emplace_back();
  result.claim = claim;
  result.verdict = Verdict::violated;
  result.comparisons = 48;
  Finding& finding = result.findings.emplace_back();
  finding.claim = claim;
  finding.kind = kind;
  finding.step = finding.last_step = 3;
  finding.tensor = "0.weight";
  finding.groups = {{0}, {1}};
  job.symptom.kind = symptom;
  job.symptom.step = 3;
  job.symptom.tensor = "0.weight";
  job.symptom.text = "ranks part in step 3";
  return job;
}

JobRecord apart() {
  return violated(agreeing(), agree_across_ranks(Kind::gradient, Phase::pre_step),
                  FindingKind::gradients_differ, SymptomKind::ranks_differ);
}

JobRecord not_finite_on_all() {
  return violated(agreeing(), stay_finite(Kind::parameter, Phase::post_step),
                  FindingKind::became_not_finite, SymptomKind::became_not_finite);
}

JobRecord undecided() {
  JobRecord job = agreeing();
  job.results[0].verdict = Verdict::undecided;
  job.results[0].reason = "nothing was observed in step 12";
  job.symptom.kind = SymptomKind::undecided;
  return job;
}

JobRecord hanging() {
  JobRecord job = violated(agreeing(), collectives_match(), FindingKind::collective_never_called,
                           SymptomKind::mismatched);
  for (RankExit& end : job.exits) {
    end.kind = ExitKind::unfinished;
    end.cause = ExitCause::no_progress;
  }
  job.mismatch.emplace();
  return job;
}

JobRecord killed() {
  JobRecord job = agreeing();
  job.exits[1].kind = ExitKind::signalled;
  job.exits[1].code = 9;
  job.results[1].verdict = Verdict::violated;
  job.symptom.kind = SymptomKind::not_finished;
  job.symptom.text = "rank 1 was killed";
  job.command_status = 1;
  return job;
}

JobRecord of_one_rank() {
  JobRecord job = undecided();
  job.world_size = job.processes = job.coverage.ranks = 1;
  job.coverage.compared = 0;
  job.exits.resize(1);
  job.results[0].comparisons = 0;
  job.results[0].reason = "no other rank holds it";
  return job;
}

JobRecord unobserved() {
  JobRecord job;
  job.title = "true";
  job.command_status = 0;
  job.symptom.kind = SymptomKind::undecided;
  return job;
}

/// Of no rank is anything left.
JobRecord lost() {
  JobRecord job = unobserved();
  job.unsealed = "what its ranks wrote cannot be read: run/job: No such file or directory";
  return job;
}

JobRecord compared_in_part() {
  JobRecord job = agreeing();
  job.coverage.compared = 3;
  return job;
}

JobRecord compared_until_step_4() {
  JobRecord job = agreeing();
  job.coverage.until = {{Kind::gradient, 4, 1, "0.bias"}};
  return job;
}

JobRecord failing_at_its_end() {
  JobRecord job = agreeing();
  job.command_status = 7;
  return job;
}

JobRecord with_changed_files() {
  JobRecord job = agreeing();
  job.faults = {"rank-1.csv was changed"};
  return job;
}

JobRecord unsealed() {
  JobRecord job = agreeing();
  job.unsealed = "the watch still runs";
  return job;
}

using Job = JobRecord (*)();
const std::vector<Job> kJobs{agreeing,
                             apart,
                             not_finite_on_all,
                             undecided,
                             hanging,
                             killed,
                             of_one_rank,
                             unobserved,
                             lost,
                             compared_in_part,
                             compared_until_step_4,
                             failing_at_its_end,
                             with_changed_files,
                             unsealed};

int status_with(JobRecord job, const JobDemands& demands) {
  job.demands = demands;
  return static_cast<int>(status_of(job));
}

TEST(StatusOfAJob, IsThatOfItsRanksWithoutDemands) {
  EXPECT_EQ(status_with(agreeing(), {}), 0);
  EXPECT_EQ(status_with(of_one_rank(), {}), 0);
  EXPECT_EQ(status_with(compared_in_part(), {}), 0);
  EXPECT_EQ(status_with(compared_until_step_4(), {}), 0);
  EXPECT_EQ(status_with(failing_at_its_end(), {}), 0);
  EXPECT_EQ(status_with(apart(), {}), 1);
  EXPECT_EQ(status_with(not_finite_on_all(), {}), 1);
  EXPECT_EQ(status_with(hanging(), {}), 1);
  EXPECT_EQ(status_with(killed(), {}), 1);
  EXPECT_EQ(status_with(with_changed_files(), {}), 1);
  EXPECT_EQ(status_with(undecided(), {}), 2);
  EXPECT_EQ(status_with(unsealed(), {}), 2);
  EXPECT_EQ(status_with(unobserved(), {}), 3);
}

TEST(StatusOfAJob, IsUndecidedIfStrictAndNotAllWasCompared) {
  const JobDemands strict{.is_strict = true};
  EXPECT_EQ(status_with(agreeing(), strict), 0);
  EXPECT_EQ(status_with(compared_in_part(), strict), 2);
  EXPECT_EQ(status_with(compared_until_step_4(), strict), 2);
  EXPECT_EQ(status_with(of_one_rank(), strict), 2);
  EXPECT_EQ(status_with(apart(), strict), 1);
}

TEST(StatusOfAJob, ThatShouldAgreeNeedsStepsAndACommandThatSucceeds) {
  const auto with = [](JobRecord job, std::int64_t steps) {
    return status_with(std::move(job), {.expected = agrees, .min_steps = steps});
  };
  EXPECT_EQ(with(agreeing(), 12), 0);
  EXPECT_EQ(with(agreeing(), 13), 2);
  EXPECT_EQ(with(failing_at_its_end(), 1), 2);
  EXPECT_EQ(with(killed(), 1), 1);
  EXPECT_EQ(with(of_one_rank(), 1), 3);
  EXPECT_EQ(with(not_finite_on_all(), 1), 1);
}

TEST(StatusOfAJob, ThatShouldNotAgreeIsWhetherTheFaultIsThere) {
  EXPECT_EQ(status_with(apart(), {.expected = diverges}), 0);
  EXPECT_EQ(status_with(apart(), {.expected = hangs}), 1);
  EXPECT_EQ(status_with(apart(), {.expected = not_finite}), 2);
  EXPECT_EQ(status_with(hanging(), {.expected = hangs}), 0);
  EXPECT_EQ(status_with(hanging(), {.expected = diverges}), 2);
  EXPECT_EQ(status_with(not_finite_on_all(), {.expected = not_finite}), 0);
  EXPECT_EQ(status_with(not_finite_on_all(), {.expected = diverges}), 2);
  for (const ExpectedOutcome expected : {diverges, hangs, not_finite}) {
    const JobDemands demands{.expected = expected};
    EXPECT_EQ(status_with(agreeing(), demands), 1);
    EXPECT_EQ(status_with(undecided(), demands), 2);
    EXPECT_EQ(status_with(failing_at_its_end(), demands), 2);
    EXPECT_EQ(status_with(of_one_rank(), demands), 3);
    EXPECT_EQ(status_with(unobserved(), demands), 3);
  }
}

TEST(StatusOfAJob, IsNotFiniteAsExpectedOnOneRank) {
  JobRecord job = of_one_rank();
  job.results.push_back(not_finite_on_all().results.back());
  EXPECT_EQ(status_with(job, {.expected = not_finite}), 0);
}

TEST(StatusOfAJob, IsWhetherAnErrorEndedItAsExpected) {
  const JobDemands demands{.expected = raises};
  EXPECT_EQ(status_with(agreeing(), demands), 1);
  EXPECT_EQ(status_with(of_one_rank(), demands), 1);
  EXPECT_EQ(status_with(killed(), demands), 2);
  JobRecord job = agreeing();
  job.exits[1].kind = ExitKind::raised;
  job.exits[1].error = "RuntimeError: twice";
  EXPECT_EQ(status_with(job, demands), 1) << "another error";
  job.exits[1].cause = ExitCause::lost_peer;
  EXPECT_EQ(status_with(job, demands), 2) << "no error of its own";
  job.has_expected_error = true;
  EXPECT_EQ(status_with(job, demands), 0);
}

TEST(ExitOfAWatchedJob, IsTheWorseOneOfItsRanksAndItsComparisons) {
  const auto with = [](JobRecord job, Likeness likeness, const JobDemands& demands = {}) {
    job.demands = demands;
    Comparison comparison;
    comparison.pairs = {literal_pair(likeness)};
    return exit_of(job, JobEnd{}, {comparison});
  };
  EXPECT_EQ(with(agreeing(), Likeness::rounding), 0);
  EXPECT_EQ(with(agreeing(), Likeness::undecided), 2);
  EXPECT_EQ(with(agreeing(), Likeness::different), 1);
  EXPECT_EQ(with(of_one_rank(), Likeness::equal), 0);
  EXPECT_EQ(with(of_one_rank(), Likeness::different), 1);
  EXPECT_EQ(with(apart(), Likeness::equal), 1);
  EXPECT_EQ(with(agreeing(), Likeness::different, {.expected = agrees}), 1);
  EXPECT_EQ(with(apart(), Likeness::equal, {.expected = diverges}), 0);
  EXPECT_EQ(with(apart(), Likeness::different, {.expected = diverges}), 1);
}

/// With every job and every demand.
void for_each_status(const std::function<void(const JobRecord&)>& look) {
  for (const Job make : kJobs) {
    for (const std::optional<ExpectedOutcome> expected :
         {std::optional<ExpectedOutcome>(), std::optional(agrees), std::optional(diverges),
          std::optional(hangs), std::optional(not_finite), std::optional(raises)}) {
      for (const bool is_strict : {false, true}) {
        for (const int min_steps : {1, 100}) {
          JobRecord job = make();
          job.demands = {expected, min_steps, is_strict};
          look(job);
        }
      }
    }
  }
}

RunRecord run_of(const JobRecord& job) {
  RunRecord run;
  run.jobs = {job};
  run.planned = counts_of(run);
  return run;
}

bool begins_with_one_of(const std::string& text, const std::vector<std::string>& beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](const std::string& one) { return text.starts_with(one); });
}

std::string render(const char* format, const RunRecord& run) {
  return find_renderer(format).render(run);
}

TEST(StatusOfAJob, IsTheSameInEveryFormat) {
  int statuses[4] = {};
  for_each_status([&](const JobRecord& job) {
    const RunRecord run = run_of(job);
    const int status = static_cast<int>(status_of(job));
    const std::string heading = heading_of(job);
    SCOPED_TRACE(heading);
    ++statuses[status];
    EXPECT_EQ(static_cast<int>(exit_status(run)), status);
    EXPECT_TRUE(begins_with_one_of(
        heading, status == 0 ? std::vector<std::string>{"in lockstep", "recorded", "as expected ("}
                 : status == 1 ? std::vector<std::string>{"FAILED: ", "NOT AS EXPECTED ("}
                               : std::vector<std::string>{"UNDECIDED", "NOTHING OBSERVED"}))
        << status;
    EXPECT_EQ(static_cast<int>(status_of(read_json(render("json", run), "record.json").jobs[0])),
              status);

    const auto summary = nlohmann::json::parse(render("summary", run));
    EXPECT_EQ(summary["exit_status"], status);
    EXPECT_EQ(summary["jobs"][0]["exit_status"], status);
    EXPECT_EQ(summary["jobs"][0]["sentence"], heading);

    const std::string junit = render("junit", run);
    EXPECT_EQ(junit.find("<failure ") != junit.npos, status == 1);
    EXPECT_EQ(junit.find("<error ") != junit.npos, status > 1);

    const std::string annotated = annotations(run);
    EXPECT_EQ(annotated.starts_with("::error"), status == 1);
    EXPECT_EQ(annotated.starts_with("::warning"), status > 1);

    const bool do_agree = status == 0 && is_to_agree(job) && !is_recording(job);
    for (const char* page : {"markdown", "github"}) {
      const std::string text = render(page, run);
      EXPECT_EQ(text.find("all ranks agree") != text.npos, do_agree);
      EXPECT_EQ(text.find("FAILED") != text.npos, heading.starts_with("FAILED"));
    }
    const std::string html = render("html", run);
    EXPECT_EQ(html.find("<header class=\"bad\"") != html.npos, status == 1);
    EXPECT_EQ(html.find("<header class=\"good\"") != html.npos, status == 0);
  });
  for (const int count : statuses) EXPECT_GT(count, 10);
}

TEST(StatusOfAJob, IsThatOfTheWatchThatTrainedIt) {
  for_each_status([](const JobRecord& job) {
    JobEnd end;
    end.status = job.command_status.value_or(0);
    const int status = static_cast<int>(status_of(job));
    const bool has_own = !job.demands.expected && end.status != 0;
    EXPECT_EQ(exit_of(job, end), has_own ? end.status : status) << heading_of(job);
    end.is_cut = true;  // as with --fail-fast
    EXPECT_EQ(exit_of(job, end), status);
    end.interrupted_by = 2;
    if (job.demands.expected) {
      EXPECT_EQ(exit_of(job, end), 130);
    }
  });
}

TEST(HeadingOfAJob, SaysWhyNothingWasCompared) {
  JobRecord job = undecided();
  job.results[0].comparisons = 0;
  job.results[0].reason = "not triggered: nothing was compared";
  job.exits[1].kind = ExitKind::unfinished;
  job.results[1].verdict = Verdict::undecided;
  job.results[1].reason = "rank 1 was interrupted in step 3";
  EXPECT_EQ(heading_of(job), "UNDECIDED: ranks finish: rank 1 was interrupted in step 3");
  job.results[0].comparisons = 10;
  job.results[0].reason = "nothing was observed in step 12";
  EXPECT_THAT(heading_of(job), testing::HasSubstr("nothing was observed in step 12"));
}

TEST(HeadingOfAJob, IsNotThatNothingWasObservedIfThatIsUnknown) {
  EXPECT_EQ(heading_of(lost()),
            "UNDECIDED: what its ranks wrote cannot be read: run/job: No such file or directory");
  EXPECT_EQ(status_of(lost()), ExitStatus::undecided);
  EXPECT_EQ(status_of(unobserved()), ExitStatus::not_applicable);
}

TEST(HeadingOfAJob, SaysWhatWasAskedForInVain) {
  const auto heading = [](JobRecord job, const JobDemands& demands) {
    job.demands = demands;
    return heading_of(job);
  };
  EXPECT_EQ(heading(compared_in_part(), {.is_strict = true}),
            "UNDECIDED: in lockstep for 12 steps, 1 to 12, but with --strict: 3 of 4 parameters "
            "were compared");
  EXPECT_EQ(heading(compared_until_step_4(), {.is_strict = true}),
            "UNDECIDED: in lockstep for 12 steps, 1 to 12, but with --strict: 0.bias was compared "
            "until step 4 of 12");
  EXPECT_EQ(heading(agreeing(), {.expected = agrees, .min_steps = 100}),
            "UNDECIDED: in lockstep for 12 steps, 1 to 12, but --min-steps asks for 100");
  EXPECT_EQ(heading(failing_at_its_end(), {.expected = agrees}),
            "UNDECIDED: in lockstep for 12 steps, 1 to 12, but the job's command ended with status "
            "7");
  EXPECT_EQ(heading(apart(), {.expected = diverges}),
            "as expected (diverges): ranks part in step 3");
  EXPECT_EQ(heading(agreeing(), {.expected = hangs}),
            "NOT AS EXPECTED (hangs): in lockstep: 4 of 4 parameters compared on 2 of 2 ranks, 12 "
            "steps, 1 to 12");
  EXPECT_EQ(heading(undecided(), {.expected = diverges}),
            "UNDECIDED (expected: diverges): gradients agree across ranks: nothing was observed in "
            "step 12");
}

}  // namespace
}  // namespace lockstep
