#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What the judge is given of a cell, or of a job. It knows neither role nor expectation: what it
/// finds is compared with them afterwards.
struct CellEvidence {
  int world_size = 0;
  /// That were to be run: a claim that was not observed to the last one is undecided. Absent: not
  /// known, as of a watched job, whose steps may be sparse and end anywhere.
  std::optional<std::int64_t> steps = 0;
  bool is_job = false;  ///< another program trained: its ranks may be observed in part
  std::vector<Claim> claims;
  const StepReader* evidence = nullptr;  ///< null where only the endings are judged
  /// Rank 0 is the reference, the others are the same with perturbed inputs; null when the scenario
  /// has none.
  const StepReader* reference = nullptr;
  std::optional<RankExit> reference_exit = {};  ///< of the reference's rank 0; absent: not known
  std::vector<RankExit> exits;
};

/// Where no steps were planned, the first step that a rank which did not finish may not have come
/// through: from it on nothing follows from what was not observed. Else the largest number.
std::int64_t first_open_step(const CellEvidence& cell);

/// One step of a cell, beside the same step of its reference.
struct CellStep {
  const StepView& actual;
  const StepView* reference = nullptr;  ///< null where the cell has none
};

}  // namespace lockstep
