#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/judge/wrong_values.h"

namespace lockstep {

/// Whether any rank reached the branch point. If none did, the variant was never exercised, and no
/// claim holds. In a record without this field it counts as reached.
bool is_triggered(const std::vector<RankExit>& exits);

/// The first step with a wrong value; 0 if there is none. Findings about memory and collectives do
/// not count.
std::int64_t first_damage(const std::vector<ClaimResult>& results);

/// Result of one pass over the steps of a cell.
struct Judgement {
  std::vector<ClaimResult> results;  ///< one per claim, in order
  WrongValues wrong_values;
  /// Whether the reference has copies that all hold exactly its bits of every compared tensor. Then
  /// no input was perturbed, and the effect of rounding is not measured.
  bool has_still_copies = false;
  /// Tensors of a job that all ranks stopped to observe in the same step, and that step, by claim.
  std::vector<std::pair<Claim, std::map<std::string, std::int64_t>>> ended = {};
};

/// Judges every claim of a cell whose `facts` are known. Each step is read once; `others` see it in
/// the same pass. A claim whose judge throws is `undecided` with the reason. Throws Error (usage)
/// if a file cannot be read, and passes on exceptions of `others`.
Judgement judge(const CellEvidence& cell, const CellFacts& facts, const StepFolds& others = {});

}  // namespace lockstep
