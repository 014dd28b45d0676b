#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/judge/values/reductions.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Judges that gradients of a job are those of all ranks, reduced, in the steps in which ranks
/// observed what they contributed.
class ReductionFold : public StepFold {
 public:
  /// `cell` outlives this.
  explicit ReductionFold(const CellEvidence& cell);

  bool wants(std::int64_t step) const override { return steps_.contains(step); }
  void see(const StepView& step) override;

  /// Call once, after the last step. Empty: nothing was judged.
  ///
  /// Ranks that agree on a wrong sum break the claim if they do so in two judged steps, one after
  /// the other: a training may leave out a rank now and then. Ranks that differ break it only where
  /// `results` say that gradients differ, since ranks may rightly reduce them later or not at all.
  std::optional<ClaimResult> result(const std::vector<ClaimResult>& results);

  /// Gradients that are sums of what the ranks contributed, or multiples of the others as if they
  /// were; empty: none are. Losses that are sums over tokens need them.
  std::string sums_in_words() const;

  /// That all ranks contributed the same to all gradients, in at least two steps; empty: not so.
  std::string alike_in_words() const;

  /// What was judged, and among how many ranks one that is left out would be seen; empty: nothing
  /// was observed.
  std::string judged_in_words() const;

 private:
  using Reductions = std::map<std::string, Reduction>;  ///< by name of the tensor

  /// An accumulating loop may step the optimizer without gradients in some steps: they are unknown
  /// where others have gradients, or the job trains on.
  void drop_open_steps();

  const CellEvidence& cell_;
  std::set<std::int64_t> steps_;               ///< to judge
  std::map<std::int64_t, Reductions> judged_;  ///< by step
};

/// Of a finding of it, without how many tensors: "gradients lack the contribution of rank 2".
std::string reduction_in_words(const Finding& finding);

}  // namespace lockstep
