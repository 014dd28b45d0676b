#pragma once

#include <cstdint>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/judge/wrong_values.h"

namespace lockstep {

/// Whether any rank reached the place where the variant parts. Where none did, nothing of it was
/// tried, and no claim holds. A record that does not know counts as reached.
bool is_triggered(const std::vector<RankExit>& exits);

/// The first step in which a value was found to be wrong; 0 when none was. Memory is no value, and
/// neither are collectives.
std::int64_t first_damage(const std::vector<ClaimResult>& results);

/// What one pass over the steps of a cell found.
struct Judgement {
  std::vector<ClaimResult> results;  ///< one per claim, in order
  WrongValues wrong_values;
  /// Whether the reference has copies, and all of them hold its very bits of all that is compared
  /// with it: no input was perturbed, and nothing measures how far roundings go.
  bool has_still_copies = false;
};

/// Judges every claim of a cell, of which `facts` are known, reading each step of it once; `others`
/// see it in the same pass. A claim whose judge throws is `undecided` with the reason. Throws Error
/// (usage) where a file cannot be read, and what `others` throw.
Judgement judge(const CellEvidence& cell, const CellFacts& facts, const StepFolds& others = {});

}  // namespace lockstep
