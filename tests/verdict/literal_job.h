#pragma once

#include "harness/record/digest.h"
#include "reports/record/run_record.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {

/// A run of one watched job, whose ranks finish and observe gradients and parameters in `files`.
inline RunRecord literal_run_of_job(const LiteralEvidence& files, int ranks) {
  RunRecord run;
  run.environment.digest = kDigestName;
  run.planned = PlannedCounts{};
  JobRecord& job = run.jobs.emplace_back();
  job.id = "3f9c2a";
  job.title = "train.py";
  job.folder = files.folder().filename();
  job.world_size = job.processes = ranks;
  job.claims = {kAgree, agree_across_ranks(Kind::parameter, Phase::post_step), ranks_finish()};
  for (int rank = 0; rank < ranks; ++rank) job.exits.emplace_back().rank = rank;
  return run;
}

}  // namespace lockstep
