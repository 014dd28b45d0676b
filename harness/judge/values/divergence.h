#pragma once

#include <string>
#include <vector>

#include "harness/judge/values/distance.h"
#include "harness/judge/values/held_tensors.h"
#include "reports/record/execution.h"

namespace lockstep {

/// The first rank of each group, with its value.
std::vector<Holder> holders_of(const HeldTensor& place,
                               const std::vector<std::vector<int>>& groups);

/// Summarises the differences of a claim in one finding.
class Divergence {
 public:
  explicit Divergence(const Claim& claim);

  /// Adds a tensor that differs between `groups` of ranks. Steps ascend.
  void add(const StepView& step, const HeldTensor& place,
           const std::vector<std::vector<int>>& groups);

  /// Adds which tensors were compared in a step in which some differ, after these.
  void note_compared(std::int64_t step, const std::vector<const HeldTensor*>& tensors);

  bool is_empty() const { return finding_.places == 0; }

  /// The finding with its sentence. Call once.
  Finding take();

 private:
  void begin(const HeldTensor& place, const std::vector<std::vector<int>>& groups, double worst);

  Finding finding_;
  std::vector<std::string>
      alike_;               ///< compared in the first step that differs, without a difference
  std::string structural_;  ///< how dtype or shape differ, in words
};

}  // namespace lockstep
