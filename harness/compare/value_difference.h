#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/record/snapshots.h"
#include "reports/record/finding.h"

namespace lockstep {

/// Difference of two tensors of one dtype and shape, bitwise and numerically. A component that is
/// not finite on either side counts as a bitwise difference only.
struct ValueDifference {
  std::int64_t elements = 0;
  std::int64_t differing = 0;  ///< elements whose bits differ
  double worst = 0;            ///< largest |left - right| over finite components; NaN when a
                               ///< differing component is not finite
  double norm = 0;             ///< L2 of the difference
  double right_norm = 0;
  std::optional<double> ratio;             ///< <left, right> / <right, right>
  std::optional<double> cosine;            ///< absent when a norm is 0
  std::optional<ElementDifference> first;  ///< `left` and `right` are not set yet
};

/// Requires equal dtype and shape.
ValueDifference difference(const SnapshotTensor& left, const SnapshotTensor& right);

/// The components of a tensor as numbers: two of a complex element.
std::vector<double> components_of(const SnapshotTensor& tensor);

/// The larger of two differences; NaN (not finite) is larger than any.
double worse(double a, double b);

}  // namespace lockstep
