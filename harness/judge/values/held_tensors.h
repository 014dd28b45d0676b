#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/record/observation.h"
#include "reports/record/claim.h"

namespace lockstep {

/// Identifies data that must be equal on all its ranks: one tensor, or one shard of it. A shard
/// with a different shape is another shard; a whole tensor with a different shape is a difference.
struct HeldTensorKey {
  std::string name;
  std::string replica_group;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> local_shape;

  explicit HeldTensorKey(const ObservedTensor& tensor);

  auto operator<=>(const HeldTensorKey&) const = default;
};

/// A tensor in one micro-batch of a step.
struct HeldTensor {
  std::int64_t step = 0;
  std::int64_t seq = 0;  ///< on its lowest rank: execution order
  std::map<int, const Observation*> holders;
};

/// The tensors of a claim that the ranks hold in a step, in the order of execution. `unshared`:
/// names to leave out.
std::vector<HeldTensor> held_tensors(const StepView& step, const Claim& claim,
                                     const std::set<std::string>& unshared);

/// Ranks with the same value, by lowest rank.
std::vector<std::vector<int>> groups_of(const HeldTensor& place);

/// Names of the parameters that ranks hold copies of, and can compare after the step. One moment of
/// such a parameter may lack values, such as a gradient that is a sum over ranks.
std::set<std::string> compared_after_step(const StepReader& evidence);

/// The claims that can be judged by what was observed: without those about a moment in which no
/// tensor can be compared, if the parameters can be after the step.
std::vector<Claim> without_incomparable(std::vector<Claim> claims, const StepReader& evidence);

/// Whether any rank has a value to compare.
bool is_comparable(const HeldTensor& place);

/// The expected holders of a tensor: every rank. For a shard or replica group, the ranks that held
/// it in any step.
class ExpectedHolders {
 public:
  ExpectedHolders(const CellEvidence& cell, const Claim& claim);

  bool are_all_in(const HeldTensor& place) const;

  /// A tensor of all ranks is compared only after all have observed it. Shards and replica groups
  /// are compared between their holders.
  bool may_be_compared(const HeldTensor& place) const;

  /// Whether all observing ranks ever held a tensor of all ranks. If not, each pipeline stage may
  /// have its own tensor of this name.
  bool were_ever_all_in(const HeldTensor& place) const;

  /// A rank that trained without observing any tensor of the claim, in words; empty if there is
  /// none. Replica groups do not expect it.
  std::string first_silent_rank(const CellEvidence& cell) const;

 private:
  Kind kind_;
  std::map<HeldTensorKey, std::set<int>> ranks_;
  int processes_;
  std::set<int> observing_;  ///< ranks with an observation for the claim
};

}  // namespace lockstep
