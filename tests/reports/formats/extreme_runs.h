#pragma once

#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/reports/comparison/literal_comparisons.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {

inline std::vector<int> ranks_below(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// A job whose last rank differs from all others, with tables, and a mismatch of its collectives.
inline RunRecord job_of_ranks(int count) {
  RunRecord run;
  run.jobs = {literal_jobs().jobs[1]};
  JobRecord& job = run.jobs[0];
  job.world_size = job.processes = count;
  job.exits.assign(static_cast<std::size_t>(count), job.exits[0]);
  for (int rank = 0; rank < count; ++rank) job.exits[static_cast<std::size_t>(rank)].rank = rank;
  job.results[0].findings[0].groups = {ranks_below(count - 1), {count - 1}};
  for (Table& table : job.tables) {
    for (Table::Row& row : table.rows) {
      if (table.spec.quantity != Quantity::norm) continue;
      row.entries[0].values.assign(static_cast<std::size_t>(count), 0.5);
    }
  }
  job.mismatch = literal_mismatch();
  for (CollectiveRow& row : job.mismatch->rows) {
    row.calls.assign(static_cast<std::size_t>(count), row.calls[0]);
    row.calls.back() = {};
  }
  job.mismatch->culprits = {count - 1};
  job.mismatch->waiting = ranks_below(count - 1);
  run.planned = counts_of(run);
  return run;
}

/// The drift of a job that begins equal and ends far apart.
inline Table drift_over(const std::vector<double>& values) {
  Table table = literal_tables_of_job()[1];
  table.rows.clear();
  for (std::size_t i = 0; i < values.size(); ++i) {
    table.rows.push_back({static_cast<std::int64_t>(i + 1), {{{values[i]}, values[i] == 0}}});
  }
  return table;
}

/// Every number of a finding and a table is one that JSON and XML lack.
inline RunRecord run_without_finite_numbers(double number) {
  RunRecord run = literal_run();
  run.jobs = literal_jobs().jobs;
  run.jobs[1].tables = {drift_over({number, number, number, 0.5, number})};
  const auto spoil = [&](Finding& finding) {
    finding.worst_difference = finding.last_worst_difference = number;
    finding.relative_difference = finding.tolerance = finding.ratio = finding.cosine = number;
    finding.estimate_error = number;
  };
  for (CellRecord& cell : run.cells) {
    cell.duration_s = number;
    cell.symptom.ratio = cell.symptom.cosine = number;
    for (ClaimResult& result : cell.results) {
      if (result.margin) result.margin = result.tolerance = number;
      for (Finding& finding : result.findings) spoil(finding);
    }
  }
  for (JobRecord& job : run.jobs) {
    for (ClaimResult& result : job.results) {
      for (Finding& finding : result.findings) spoil(finding);
    }
  }
  for (Table& table : run.tables) {
    for (Table::Row& row : table.rows) {
      for (Table::Entry& entry : row.entries) {
        for (double& value : entry.values) value = number;
      }
    }
  }
  return run;
}

/// One job with as many findings, and as many failed cells of 100 scenarios.
inline RunRecord run_with_findings(int count) {
  RunRecord run;
  run.environment = literal_run().environment;
  run.jobs = {literal_jobs().jobs[1]};
  std::vector<Finding>& findings = run.jobs[0].results[0].findings;
  findings.assign(static_cast<std::size_t>(count), findings[0]);
  for (int i = 0; i < count; ++i) {
    run.cells.push_back(literal_false_alarm());
    run.cells.back().cell.scenario = "scenario-" + std::to_string(i % 100);
    run.cells.back().cell.variant = "variant-" + std::to_string(i);
  }
  run.planned = counts_of(run);
  return run;
}

/// Records at the ends of what there is, with a name each; one of them has so many `findings`.
inline std::vector<std::pair<std::string, RunRecord>> extreme_runs(int findings) {
  RunRecord no_steps;
  no_steps.jobs = {literal_job("aa")};
  no_steps.jobs[0].steps = {};
  no_steps.jobs[0].world_size = 1;
  RunRecord unobserved = no_steps;
  unobserved.jobs[0].world_size = 0;
  RunRecord hostile = nasty_run();
  for (JobRecord& job : hostile.jobs = literal_jobs().jobs) {
    job.title += kNasty;
    job.notes.push_back(kNasty);
    job.symptom.text += kNasty;
    job.tables = {drift_over({0, 1, 2, 3})};
    job.tables[0].spec.groups[0].heading = kNasty;
  }
  Comparison comparison;
  comparison.pairs = {literal_pair(Likeness::different)};
  const RunRecord fix = run_with(literal_fix(literal_pair(Likeness::equal, SideOutcome::raised),
                                             literal_pair(Likeness::rounding)));
  RunRecord hostile_comparison = fix;
  for (ComparedPair& pair : hostile_comparison.comparisons[0].pairs) {
    for (ComparedSide& side : pair.sides) {
      side.title += kNasty;
      side.folder += kNasty;
      if (side.fault) side.fault->sentence += kNasty;
    }
    pair.unmatched = {{{kNasty}, {kNasty}}};
    pair.preconditions[0].text += kNasty;
    for (StepDifference& step : pair.steps) step.tensors[0].name += kNasty;
    pair.result.reason += kNasty;
  }
  RunRecord no_reference = fix;
  no_reference.comparisons[0].pairs.pop_back();
  Comparison missing;
  missing.failure = "the job was not compared: " + std::string(kNasty);
  return {{"nothing", {}},
          {"comparison", run_with(comparison)},
          {"fix", fix},
          {"fix-without-reference", no_reference},
          {"hostile-comparison", hostile_comparison},
          {"missing-comparison", run_with(missing)},
          {"no-findings", literal_run_of({literal_fixed(1), literal_buggy()})},
          {"no-steps", no_steps},
          {"unobserved", unobserved},
          {"thousand-ranks", job_of_ranks(1000)},
          {"not-a-number", run_without_finite_numbers(kNaN)},
          {"infinite", run_without_finite_numbers(std::numeric_limits<double>::infinity())},
          {"findings", run_with_findings(findings)},
          {"hostile", hostile}};
}

}  // namespace lockstep
