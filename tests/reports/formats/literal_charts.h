#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/reports/formats/literal_jobs.h"

namespace lockstep {

/// Charts of ranks with norms of their own: 1 + step/1000 + rank/100. They drift by step/1e6, and
/// step 1 has no drift.
inline Charts literal_charts(int ranks, std::int64_t steps, std::int64_t tensors) {
  Charts charts;
  StepSeries& series = charts.series;
  series.observed = steps;
  for (int rank = 0; rank < ranks; ++rank) series.norms.push_back({{rank}, {}});
  for (std::int64_t step = 1; step <= steps; ++step) {
    series.steps.push_back(step);
    series.differing.push_back(tensors);
    const double base = 1 + double(step) / 1000;
    for (int rank = 0; rank < ranks; ++rank) {
      series.norms[std::size_t(rank)].values.push_back(base + double(rank) / 100);
    }
    series.smallest_norms.push_back(base);
    series.largest_norms.push_back(base + double(ranks - 1) / 100);
    series.drift.push_back(step == 1 ? 0 : double(step) / 1e6);
    series.estimated_drift.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  charts.agreement.tensors = tensors;
  charts.agreement.first_step = steps > 0 ? 1 : 0;
  charts.agreement.last_step = steps;
  return charts;
}

/// A tensor that differs in the given steps.
inline TensorCourse literal_course(const std::string& name, std::int64_t first, std::int64_t last) {
  TensorCourse course;
  course.name = name;
  course.groups = {{0}, {1}};
  course.runs = {{first, last}};
  course.steps = last - first + 1;
  course.last = last;
  return course;
}

/// Calls of two ranks, of which the last is a mismatch.
inline CollectiveLanes literal_lanes() {
  CollectiveLanes lanes{"world", {{{0}, {}}, {{1}, {}}}, 0};
  for (std::int64_t number = 1; number <= 4; ++number) {
    lanes.lanes[0].calls.push_back(
        {number, 1, "allreduce sum float32 [4]", "train.py:12", number == 4});
    if (number < 4) lanes.lanes[1].calls.push_back(lanes.lanes[0].calls.back());
  }
  return lanes;
}

/// The mismatch of these.
inline CollectiveMismatch literal_mismatch_of_lanes() {
  CollectiveMismatch mismatch;
  mismatch.group = "world";
  mismatch.number = 4;
  mismatch.step = 1;
  mismatch.culprits = {1};
  mismatch.waiting = {0};
  mismatch.sentence = "rank 1 never called collective 4 of the group world";
  return mismatch;
}

/// One job with charts.
inline RunRecord literal_charted_job(Charts charts, int ranks) {
  RunRecord run = literal_jobs();
  run.jobs.resize(1);
  JobRecord& job = run.jobs[0];
  job.world_size = ranks;
  job.charts = std::move(charts);
  return run;
}

}  // namespace lockstep
