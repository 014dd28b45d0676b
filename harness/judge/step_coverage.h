#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/gap.h"

namespace lockstep {

/// The steps in which a claim's tensors were observed. Journals that all lack a step agree with
/// each other, so missing steps need a check of their own.
class StepCoverage {
 public:
  explicit StepCoverage(const CellEvidence& cell);

  /// Steps come in ascending order.
  void see(const StepView& step, const Claim& claim);

  /// A step with the same tensors as the step `like`, which was seen.
  void see_alike(std::int64_t step, std::int64_t like) { note(step, !without_.contains(like)); }

  /// Turns a result that holds into undecided if steps are missing.
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
  std::int64_t last_ = 0;  ///< the last step with any observation
  Gap observed_;
  std::set<std::int64_t> without_;  ///< seen steps without the claim's tensors
};

}  // namespace lockstep
