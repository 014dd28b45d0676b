#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/gap.h"

namespace lockstep {

/// In which steps somebody looked at what a claim is about: journals that all lack a step agree
/// with each other.
class StepCoverage {
 public:
  explicit StepCoverage(const CellEvidence& cell);

  /// Steps come in ascending order.
  void see(const StepView& step, const Claim& claim);

  /// A step with the tensors of the step `like`, which was seen.
  void see_alike(std::int64_t step, std::int64_t like) { note(step, !without_.contains(like)); }

  /// Makes a result that holds undecided where steps are missing.
  void require_all(ClaimResult& result) const;

 private:
  void note(std::int64_t step, bool is_observed);
  std::string lack_of_ends() const;
  std::string lack_of_plan() const;
  std::string lack_at_end() const;

  std::optional<std::int64_t> planned_;
  std::int64_t first_open_;
  std::optional<std::pair<std::int64_t, std::int64_t>> last_steps_;  ///< of ranks that finished
  std::int64_t next_ = 1;
  std::int64_t last_ = 0;  ///< in which anything was observed
  Gap observed_;
  std::set<std::int64_t> without_;  ///< steps that were seen, in which nobody looked
};

}  // namespace lockstep
