#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The judge's input for a cell or a job. It contains neither role nor expectation: the findings
/// are compared with those afterwards.
struct CellEvidence {
  int world_size = 0;
  /// Planned steps: a claim that was not observed in all of them is undecided. Absent: unknown, as
  /// for a watched job, whose steps may be sparse and end anywhere.
  std::optional<std::int64_t> steps = 0;
  bool is_job = false;           ///< another program trained: some ranks may be unobserved
  std::int64_t agree_every = 0;  ///< steps, for claims of periodic agreement
  std::vector<Claim> claims;
  std::set<std::string> unshared;  ///< tensors that may be no copies, so that nothing is claimed
  std::set<std::string> own;       ///< parameters that each rank has for itself
  const StepReader* evidence = nullptr;  ///< null if only rank exits are judged
  /// Rank 0 is the reference, the others are copies with perturbed inputs; null if the scenario has
  /// none.
  const StepReader* reference = nullptr;
  std::optional<RankExit> reference_exit = {};  ///< of the reference's rank 0; absent: unknown
  std::vector<RankExit> exits;
  /// Collectives of a job since the update before, and those inside the steps of its optimizers; a
  /// step without rows was not counted.
  std::vector<Traffic> traffic = {};
  std::vector<Traffic> traffic_in_steps = {};
  std::vector<JoinedRanks> joined = {};  ///< of a job: steps that some ranks do not train
  std::vector<int> bystanders = {};      ///< of a job: ranks that train nothing, ascending
  bool settings_differ = false;  ///< optimizers of ranks of a job have different hyperparameters
};

/// The first step that an unfinished rank may not have completed, if no steps were planned. From
/// this step on, a missing observation proves nothing. If steps were planned, the largest number.
std::int64_t first_open_step(const CellEvidence& cell);

/// One step of a cell, with the same step of its reference.
struct CellStep {
  const StepView& actual;
  const StepView* reference = nullptr;  ///< null if the cell has none
};

}  // namespace lockstep
