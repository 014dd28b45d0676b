#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/record/claim.h"

namespace lockstep {

/// The first element in which two holders of a tensor differ.
struct ElementDifference {
  std::vector<std::int64_t> index;  ///< in the tensor's shape; empty for a 0-dim tensor
  std::string left;                 ///< who holds `left_value`: "rank 0"
  std::string right;                ///< "rank 1", "the reference"
  double left_value = 0;
  double right_value = 0;
  std::string left_bits;  ///< hexadecimal, as wide as the dtype
  std::string right_bits;
  std::optional<std::uint64_t> ulp_distance;  ///< representable values between; not for NaN, bool

  bool operator==(const ElementDifference&) const = default;
};

/// How one rank ended, for a finding about `ranks finish`.
struct RankFailure {
  int rank = 0;
  std::string how;                  ///< "raised an error", "was killed by signal 6 (SIGABRT)"
  std::string error;                ///< the framework's own words; empty when there were none
  std::string last_output;          ///< the end of what the rank printed
  std::optional<std::int64_t> lag;  ///< steps between the first damage found and this error

  bool operator==(const RankFailure&) const = default;
};

/// Whose gradient one is that is not the reference's, where that is known.
///   own          the rank's own: never synchronised
///   other_rank   another rank's own
///   mixture      the mean of gradients of different tensors
enum class GradientAttribution { own, other_rank, mixture };

template <>
struct Names<GradientAttribution> {
  static constexpr std::array<std::string_view, 3> values{"own", "other rank", "mixture"};
};

/// A claim that does not hold, with its evidence: the first place where it breaks, in execution
/// order, and how far it goes from there.
struct Finding {
  Claim claim;
  std::int64_t step = 0;  ///< 0 when the rank had not begun a step
  std::string tensor;     ///< empty for a finding about a rank
  /// Ranks that hold equal bits, by lowest rank; against the reference: the ranks that are off,
  /// each alone.
  std::vector<std::vector<int>> groups;
  std::optional<ElementDifference> first_difference;
  std::int64_t differing_elements = 0;  ///< in that tensor, between its two furthest holders
  std::int64_t elements = 0;
  double worst_difference = 0;                ///< largest |difference| in that tensor
  std::optional<double> relative_difference;  ///< Frobenius, against the reference
  std::optional<double> tolerance;            ///< what `relative_difference` was allowed to be
  std::optional<double> ratio;                ///< to the reference, by projection
  std::optional<double> cosine;               ///< with the reference
  std::string ratio_in_words;                 ///< "half: averaged twice"; empty: no guess
  std::int64_t places = 0;                    ///< (step, tensor) pairs that break the claim
  std::int64_t last_step = 0;                 ///< the last step that breaks it
  double last_worst_difference = 0;           ///< largest |difference| in that step
  std::optional<RankFailure> failure;         ///< for `ranks finish`
  std::string sentence;                       ///< what a maintainer would say
  std::vector<std::string> tensors = {};      ///< that break the claim in `step`, in their order
  std::optional<GradientAttribution> attribution = {};  ///< of `tensor`

  bool operator==(const Finding&) const = default;
};

}  // namespace lockstep
