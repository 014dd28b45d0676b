#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Name of the reference in sentences and differences.
inline constexpr const char* kReference = "the reference";

/// "w in step 2 cannot be compared: sparse layout".
std::string incomparable_in_words(const ObservedTensor& tensor, std::int64_t step);

/// Why the reference has no counterpart of `actual`: "the reference has no w in step 2: it did not
/// finish within its limit of 60 s".
std::string missing_in_reference(const CellEvidence& cell, const Observation& actual);

/// "ranks 0,1,3 agree; 2 differs" for groups of equal ranks.
std::string groups_in_words(const std::vector<std::vector<int>>& groups);

/// "element [0, 3] is 0.25 on rank 0 and 0.5 on rank 1 (0x3e800000, 0x3f000000; 8388608 ULP
/// apart)".
std::string element_in_words(const ElementDifference& difference);

/// Why two observations cannot be compared by value: one has none, or their dtypes or shapes
/// differ. Empty if they can. `left` and `right` name the holders.
std::string structural_difference(const Observation& a, const std::string& left,
                                  const Observation& b, const std::string& right);

/// "[2, 3]".
std::string shape_in_words(const std::vector<std::int64_t>& shape);

/// A number with six significant digits, for a sentence.
std::string number(double value);

}  // namespace lockstep
