#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"

namespace lockstep {

/// Numbers from `least` to `most`, both among them.
struct Range {
  double least = 0;
  double most = 0;

  bool operator==(const Range&) const = default;
};

/// What tells a fault from others that break the same claim: where it breaks first, and how. Empty
/// parts are open, for the reason `why`.
struct Pin {
  Claim claim;
  std::vector<std::int64_t> steps;  ///< one of them is the first that breaks it; 0 is before all
  std::optional<std::int64_t> last_step = {};  ///< the last that breaks it
  /// Names of tensors, in which a `*` stands for any text. Every tensor that breaks the claim in
  /// its first step is one of them.
  std::vector<std::string> tensors = {};
  std::optional<GradientAttribution> attribution = {};  ///< of the first tensor
  std::optional<Range> ratio = {};                      ///< of the first tensor to the reference
  std::optional<Range> cosine = {};                     ///< of the first tensor with the reference
  /// As the finding has them: ranks that hold equal bits, or those that are off, each alone.
  std::vector<std::vector<int>> groups = {};
  std::optional<MismatchFault> fault = {};  ///< of the collective mismatch
  std::vector<int> culprits = {};           ///< of it
  std::string why = {};                     ///< why what is open is open

  bool operator==(const Pin&) const = default;
};

}  // namespace lockstep
