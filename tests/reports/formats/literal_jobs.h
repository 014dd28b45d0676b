#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/reports/formats/literal_run.h"

namespace lockstep {

/// A job of two ranks with sparse steps, which was stopped within one.
inline JobRecord literal_job(const std::string& id) {
  const CellRecord cell = literal_cell("a-job", "watched", Role::fixed, CellVerdict::as_expected);
  JobRecord job;
  static_cast<Execution&>(job) = cell;
  job.id = id;
  job.title = "torchrun --nproc-per-node 2 train.py";
  job.folder = id;
  job.world_size = 2;
  job.steps = {57, 10, 570};
  job.cost.reset();
  return job;
}

/// The gradient norms and the drift of a job, whose values were not stored in the last step.
inline std::vector<Table> literal_tables_of_job() {
  Table norms;
  norms.world_size = 2;
  norms.spec.title = "Gradient norm of the 2 parameters that all ranks hold";
  norms.spec.quantity = Quantity::norm;
  norms.spec.digits = 0;
  norms.spec.groups = {{"", ""}};
  norms.rows = {{10, {{{0.5, 0.5}, true}}}, {20, {{{1.25e-7, 0.75}, false}}}};
  Table drift = norms;
  drift.spec.title = "Drift of the 2 parameters that all ranks hold, after the step";
  drift.spec.quantity = Quantity::drift;
  drift.spec.kind = Kind::parameter;
  drift.spec.phase = Phase::post_step;
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  drift.rows = {{10, {{{0}, true}}}, {20, {{{unknown}, false, std::nullopt, 0.003}}}};
  return {norms, drift};
}

/// Jobs in lockstep, out of it, undecided, with changed files, and not run.
inline RunRecord literal_jobs() {
  RunRecord run;
  run.environment = literal_run().environment;
  run.jobs = {literal_job("3f9c2a"), literal_job("aa01"), literal_job("aa02"), literal_job("aa03"),
              literal_job("aa04")};
  JobRecord earlier = literal_job("3f9c29");
  earlier.symptom = literal_outcome(
      SymptomKind::raised, "raised in step 571 on rank 1: ValueError: <corrupt shard> | 7");
  earlier.results[0].verdict = Verdict::violated;
  earlier.results[0].findings = {literal_divergence()};
  run.jobs[0].earlier_attempts = {earlier};
  JobRecord& apart = run.jobs[1];
  apart.symptom = literal_outcome(SymptomKind::ranks_differ, "ranks differ from step 1 on: weight");
  apart.results[0].verdict = Verdict::violated;
  apart.results[0].findings = {literal_divergence()};
  apart.notes = {"rank 1: the last row of its journal was torn and left out"};
  apart.tables = literal_tables_of_job();
  apart.skipped_steps = {20, 30};
  apart.skipped_by = {{{20, 30}, {1}}};
  apart.coverage.until = {{Kind::gradient, 10, 2, "0.bias"}};
  apart.captured_updates = 1;
  apart.command_status = 0;
  apart.exits[1].stack = {"forward, model/<block>.py:31", "<module>, train.py:12"};
  apart.traffic = {{{0, 1}, 2, 1, 570, 0}, {{0}, 1, 1, 570, 3}, {{1}, 1, 1, 570, 2}};
  JobRecord& open = run.jobs[2];
  open.planned_steps = 600;
  open.symptom = literal_outcome(SymptomKind::undecided, "undecided: nothing was observed");
  open.results[0].verdict = Verdict::undecided;
  open.results[0].reason = "nothing was observed in step 571 of 600";
  run.jobs[3].faults = {"rank-1.csv was changed", "collectives-0.bin is missing"};
  JobRecord& unrun = run.jobs[4];
  unrun.not_run = NotRun{NotRunCause::no_process, "no process could be made"};
  unrun.results.clear();
  unrun.steps = {};
  run.planned = counts_of(run);
  return run;
}

}  // namespace lockstep
