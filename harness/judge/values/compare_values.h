#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/snapshots.h"
#include "reports/record/finding.h"
#include "reports/record/ratio.h"

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

/// What a ratio to the right value means.
struct RatioMeaning {
  FindingKind kind = FindingKind::scaled_by_a_constant;
  Ratio ratio;
};

/// A size of a job that a ratio may be: "micro-batches".
struct KnownSize {
  std::int64_t count = 0;
  std::string what;

  bool operator==(const KnownSize&) const = default;
};

/// Adds a size unless it is there, or 1.
void add_size(std::int64_t count, const std::string& what, std::vector<KnownSize>& sizes);

/// The meaning of a ratio to the reference. Absent: no simple ratio is within `precision`
/// (relative), or several are. `others`: sizes of the job apart from the number of ranks.
std::optional<RatioMeaning> meaning_of_ratio(double ratio, int world_size, double precision,
                                             const std::vector<KnownSize>& others = {});

/// The larger of two differences; NaN (not finite) is larger than any.
double worse(double a, double b);

}  // namespace lockstep
