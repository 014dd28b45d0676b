#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/record/claim.h"
#include "reports/record/finding_kind.h"
#include "reports/record/ratio.h"

namespace lockstep {

/// The first element in which two holders of a tensor differ.
struct ElementDifference {
  std::vector<std::int64_t> index;  ///< in the tensor's shape; empty for a 0-dim tensor
  std::string left;                 ///< holder of `left_value`: "rank 0"
  std::string right;                ///< "rank 1", "the reference"
  double left_value = 0;
  double right_value = 0;
  std::string left_bits;  ///< hexadecimal, as wide as the dtype
  std::string right_bits;
  std::optional<std::uint64_t> ulp_distance;  ///< representable values between; not for NaN, bool

  bool operator==(const ElementDifference&) const = default;
};

/// Exit of one rank, for a finding about `ranks finish`.
struct RankFailure {
  int rank = 0;
  std::string how;                  ///< "raised an error", "was killed by signal 6 (SIGABRT)"
  std::string error;                ///< the framework's own words; empty if there are none
  std::string last_output;          ///< the end of the rank's output
  std::optional<std::int64_t> lag;  ///< steps between the first damage found and this error
  std::string place = {};  ///< of the error, in the user's code: "train.py:31"; empty: unknown

  bool operator==(const RankFailure&) const = default;
};

/// Origin of a gradient that differs from the reference, if it is known.
///   own          the rank's own: never synchronised
///   other_rank   another rank's own
///   mixture      the mean of gradients of different tensors
enum class GradientAttribution { own, other_rank, mixture };

template <>
struct Names<GradientAttribution> {
  static constexpr std::array<std::string_view, 3> values{"own", "other rank", "mixture"};
};

/// The first value of a step that is NaN or infinite and was neither in the step before.
struct NonFiniteBirth {
  Kind kind = Kind::gradient;
  std::string tensor;
  std::vector<int> ranks;         ///< that have it so, ascending
  std::vector<int> finite_ranks;  ///< that hold the same tensor finite, ascending
  std::int64_t non_finite = 0;    ///< elements, on the first of `ranks`
  std::int64_t elements = 0;

  bool operator==(const NonFiniteBirth&) const = default;
};

/// A violated claim with its evidence: the first position that breaks it, in execution order, and
/// its later course.
struct Finding {
  Claim claim;
  std::int64_t step = 0;  ///< 0 if the rank had not begun a step
  std::string tensor;     ///< empty for a finding about a rank
  /// Ranks with equal bits, by lowest rank. In comparisons with the reference: each differing rank
  /// alone.
  std::vector<std::vector<int>> groups;
  std::optional<ElementDifference> first_difference;
  std::int64_t differing_elements = 0;  ///< in that tensor, between its two furthest holders
  std::int64_t elements = 0;
  double worst_difference = 0;                ///< largest |difference| in that tensor
  std::optional<double> relative_difference;  ///< Frobenius, against the reference
  std::optional<double> tolerance;            ///< limit of `relative_difference`
  std::optional<double> ratio;                ///< to the reference, by projection
  std::optional<double> cosine;               ///< with the reference
  std::optional<Ratio> multiple;              ///< of the reference; absent: it is none
  std::int64_t places = 0;                    ///< (step, tensor) pairs that break the claim
  std::int64_t last_step = 0;                 ///< the last step that breaks it
  double last_worst_difference = 0;           ///< largest |difference| in that step
  std::optional<RankFailure> failure;         ///< for `ranks finish`
  std::string sentence;                       ///< for a maintainer to read
  std::vector<std::string> tensors = {};      ///< that break the claim in `step`, in execution
                                              ///< order
  std::int64_t compared = 0;  ///< tensors compared in `step`, with `tensors`; 0: not counted
  /// That `tensors` match, and no other tensor of the step: "*.lora_A.*"; empty: none, or all do.
  std::string pattern = {};
  std::optional<GradientAttribution> attribution = {};  ///< of `tensor`
  std::string attribution_in_words = {};                ///< empty without one
  /// Of ranks whose values were not stored: `relative_difference`, `ratio` and `cosine` are
  /// estimates between the first two groups, and this is the relative error of the first.
  std::optional<double> estimate_error = {};
  FindingKind kind = FindingKind::wrong_values;
  std::optional<NonFiniteBirth> birth = {};  ///< for `stay_finite`; absent: not observed

  bool operator==(const Finding&) const = default;
};

/// Where a wrong value comes from, as far as it shows: "1/2: averaged twice over 2 ranks", "it is
/// the rank's own gradient: never synchronised"; empty: unknown.
std::string origin_in_words(const Finding& finding);

}  // namespace lockstep
