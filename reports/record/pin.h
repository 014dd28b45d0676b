#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"

namespace lockstep {

/// Numbers from `least` to `most`, inclusive.
struct Range {
  double least = 0;
  double most = 0;

  bool operator==(const Range&) const = default;
};

/// Properties that distinguish a fault from others that break the same claim: its first position
/// and its form. Empty parts are open, for the reason `why`.
struct Pin {
  Claim claim;
  std::vector<std::int64_t> steps;  ///< candidates for the first breaking step; 0: before all steps
  std::optional<std::int64_t> last_step = {};  ///< the last breaking step
  /// Tensor names; `*` matches any text. Every tensor that breaks the claim in its first step must
  /// match one.
  std::vector<std::string> tensors = {};
  std::optional<GradientAttribution> attribution = {};  ///< of the first tensor
  std::optional<Range> ratio = {};                      ///< of the first tensor to the reference
  std::optional<Range> cosine = {};                     ///< of the first tensor with the reference
  /// As in a finding: ranks with equal bits, or each differing rank alone.
  std::vector<std::vector<int>> groups = {};
  std::optional<MismatchFault> fault = {};  ///< of the collective mismatch
  std::vector<int> culprits = {};           ///< of the mismatch
  std::string why = {};                     ///< why parts are left open

  bool operator==(const Pin&) const = default;
};

}  // namespace lockstep
