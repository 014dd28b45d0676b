#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Where something was found, in execution order.
struct ValuePlace {
  std::int64_t step = 0;
  std::int64_t seq = 0;
  std::string tensor;

  bool operator<(const ValuePlace& other) const {
    return std::pair(step, seq) < std::pair(other.step, other.seq);
  }
};

/// How the values of a cell are wrong, beyond the findings of its claims. Empty where every claim
/// holds.
struct WrongValues {
  /// Gradients that the reference has and no rank ever had, in the reference's order.
  std::vector<std::string> never_trained;
  /// The first place where ranks hold different values of something that a violated claim is about.
  std::optional<ValuePlace> parting;
  /// Whether ranks were seen to hold whole values of all that violated claims are about.
  bool is_known_to_agree = false;
  std::optional<ValuePlace> first;  ///< the first value that is not the reference's
};

/// `results` are those of `cell`.
WrongValues wrong_values_of(const CellEvidence& cell, const std::vector<ClaimResult>& results);

/// The first finding of violated claims of a predicate; of equal steps that of the first claim.
/// Null where there is none.
const Finding* first_finding(const std::vector<ClaimResult>& results, Predicate predicate);

/// Whether something is claimed, and all of it holds.
bool keeps_every_claim(const std::vector<ClaimResult>& results);

}  // namespace lockstep
