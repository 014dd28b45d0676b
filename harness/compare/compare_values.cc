#include "harness/compare/compare_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/compare/apart.h"

namespace lockstep {

namespace {

/// A rest that is so small against a difference by a ratio is 1/200 of both together.
constexpr double kSmallRest = 0.1;
/// The same, up to which a difference is one by a ratio that means anything. The rest of a multiple
/// is rounding.
constexpr double kRestOfMultiple = 0.05;

/// Elements of a tensor that have a direction: fewer may all be almost 0.
constexpr std::int64_t kFewest = 16;

/// Not finite on one side only, or of another size or shape: no tolerance applies. Adds cause and
/// kind.
void add_structural_difference(const Value& a, const Value& b, TensorDifference& difference) {
  if (a.elements != b.elements) {
    difference.cause = fmt::format("{} elements in A and {} in B", a.elements, b.elements);
    difference.kind = FindingKind::other_shape;
  } else if (a.shape && b.shape && a.shape != b.shape) {
    difference.cause = fmt::format("shape [{}] in A and [{}] in B", fmt::join(*a.shape, ", "),
                                   fmt::join(*b.shape, ", "));
    difference.kind = FindingKind::other_shape;
  } else if ((a.non_finite > 0) != (b.non_finite > 0)) {
    difference.cause =
        fmt::format("{} elements are not finite in {}", std::max(a.non_finite, b.non_finite),
                    a.non_finite > 0 ? "A" : "B");
    difference.kind = FindingKind::not_finite;
  }
}

/// A gradient that only one side has. Zeros are as good as none.
void compare_undefined(const Value& a, const Value& b, TensorDifference& difference) {
  const Value& defined = a.is_undefined ? b : a;
  if (defined.is_undefined || (defined.problem.empty() && defined.norm == 0)) return;
  difference.cause = fmt::format("there is none in {}", a.is_undefined ? "A" : "B");
  if (b.is_undefined) difference.kind = FindingKind::nothing_arrived;
  difference.relative = 1;
  difference.likeness = defined.problem.empty() ? Likeness::different : Likeness::undecided;
}

/// Adds the ranks of a tensor's copies or parts, unless a group of that size has a name.
void add_holders(int holders, const char* what, const JobSizes& sizes,
                 std::vector<KnownSize>& others) {
  const bool is_named = holders == sizes.ranks ||
                        std::any_of(sizes.groups.begin(), sizes.groups.end(),
                                    [&](const KnownSize& group) { return group.count == holders; });
  if (!is_named) add_size(holders, what, others);
}

/// The sizes of the jobs and of the tensor, except the number of ranks.
std::vector<KnownSize> other_sizes(const Value& a, const Value& b, const JobSizes& sizes) {
  std::vector<KnownSize> others = sizes.groups;
  others.insert(others.end(), sizes.others.begin(), sizes.others.end());
  for (const Value* tensor : {&b, &a}) {
    add_holders(tensor->copies, "ranks that hold a copy of it", sizes, others);
    add_holders(tensor->parts, "ranks that hold a part of it", sizes, others);
  }
  return others;
}

/// Whether digests tell of a difference that sketches do not show: components that were exchanged
/// may cancel in them. Sketches that are sums in other orders are apart by their own rounding,
/// about a twentieth of 2^-53 times the root of the elements, of the norm; one last place of one
/// element of a coarser type is more.
bool is_unseen(const Value& a, const Value& b, double distance) {
  const bool has_other_bits = a.digest && b.digest && a.digest != b.digest && a.dtype == b.dtype;
  if (!has_other_bits) return false;
  if (distance == 0) return true;
  const double rounding =
      0x1p-56 * std::sqrt(static_cast<double>(a.elements)) * std::max(a.norm, b.norm);
  return roundoff_of(a.dtype) > 0x1p-53 && distance <= rounding;
}

/// Only norms are known: the distance is at least their difference.
void compare_norms(const Value& a, const Value& b, const Limit& limit, double scale,
                   TensorDifference& difference) {
  difference.relative = scale > 0 ? std::abs(b.norm - a.norm) / scale : 0;
  if (a.norm > 0) difference.ratio = b.norm / a.norm;
  difference.likeness = std::max(likeness_within(difference.relative, limit), Likeness::undecided);
  difference.cause = "only the norms of both are known";
}

/// What the ratio of tensors that differ means; `rest` is the norm of what it does not explain.
/// Requires: there is a ratio.
void explain_ratio(const Value& a, const Value& b, double scale, double rest, const JobSizes& sizes,
                   TensorDifference& difference) {
  const double by_ratio = std::abs(*difference.ratio - 1) * a.norm;
  if (rest <= kSmallRest * by_ratio) {  // the distance follows from the ratio, which is no estimate
    difference.relative = by_ratio / scale;
    difference.estimate_error.reset();
  }
  if (rest > kRestOfMultiple * by_ratio) return;
  const auto meaning =
      meaning_of_ratio(*difference.ratio, sizes.ranks,
                       std::max(3 * rest / b.norm, difference.tolerance), other_sizes(a, b, sizes));
  if (!meaning) return;
  difference.multiple = meaning->ratio;
  difference.kind = meaning->kind;
}

/// Of tensors of one structure that do not have the same bits. `scale`: the norm that the distance
/// is relative to.
void compare_numbers(const Value& a, const Value& b, const Limit& limit, double scale,
                     const JobSizes& sizes, TensorDifference& difference) {
  const std::optional<Apart> known = apart_of(a, b);
  if (!known) {
    compare_norms(a, b, limit, scale, difference);
    return;
  }
  const Apart& apart = *known;
  const bool has_no_digest = !a.digest && !b.digest;  // of updates, whose sketches are all there is
  if (apart.norm == 0 && has_no_digest) return;
  const bool is_exact = have_numbers(a, b);
  if (!is_exact && is_unseen(a, b, apart.norm)) {
    difference.likeness = Likeness::undecided;
    difference.cause = "the bits differ, and the sketches do not see where";
    return;
  }
  if (!is_exact && a.elements > static_cast<std::int64_t>(Sketch::kLanes)) {
    difference.estimate_error = kSketchError;
    difference.is_estimate = true;
  }
  difference.relative = scale > 0 ? apart.norm / scale : 0;
  if (apart.right > 0) difference.ratio = apart.ratio;
  difference.cosine = apart.cosine;
  if (b.norm > 0) difference.rest = apart.rest / b.norm;
  difference.likeness = likeness_within(difference.relative, limit);
  const bool is_open = difference.likeness > Likeness::rounding;
  if (is_open && difference.ratio && b.norm != 0) {
    explain_ratio(a, b, scale, apart.rest, sizes, difference);
  }
}

/// Judges what is a multiple by its own limit, if that is smaller: rounding hardly ever makes one.
void judge_multiple(const Value& a, const Value& b, const Bound& bound, TensorDifference& one) {
  const double larger = std::max(a.norm, b.norm);
  const bool has_direction = one.ratio && one.rest && larger > 0 && a.elements >= kFewest;
  if (!has_direction || bound.multiple->within >= one.tolerance) return;
  const double apart = std::abs(*one.ratio - 1) * a.norm / larger;
  Likeness found = likeness_within(apart, *bound.multiple);
  if (found == Likeness::rounding || apart <= kOverRest * *one.rest * b.norm / larger) return;
  if (!bound.decides_multiples) found = Likeness::undecided;
  if (found <= one.likeness) return;
  one.likeness = found;
  one.relative = apart;
  one.estimate_error.reset();
  one.tolerance = bound.multiple->within;
}

}  // namespace

std::optional<double> distance_of(const Value& a, const Value& b) {
  if (has_same_bits(a, b)) return 0;
  if (a.elements != b.elements) return std::nullopt;
  const auto apart = apart_of(a, b);
  return apart ? std::optional(apart->norm) : std::nullopt;
}

TensorDifference compare_values(const Value& a, const Value& b, const Bound& bound, double all,
                                const JobSizes& sizes) {
  TensorDifference difference;
  difference.tolerance = bound.whole.within;
  if (a.is_undefined || b.is_undefined) {
    compare_undefined(a, b, difference);
    return difference;
  }
  if (const std::string& problem = a.problem.empty() ? b.problem : a.problem; !problem.empty()) {
    difference.likeness = Likeness::undecided;
    difference.cause = problem;
    return difference;
  }
  difference.is_finite = a.non_finite == 0 || b.non_finite == 0;
  add_structural_difference(a, b, difference);
  if (difference.kind) {
    difference.likeness = Likeness::different;
    difference.relative = 1;
    return difference;
  }
  if (!has_same_bits(a, b)) {
    difference.is_of_all = kSmallPart * all > std::max(a.norm, b.norm);
    const double scale = std::max({a.norm, b.norm, kSmallPart * all});
    compare_numbers(a, b, bound.whole, scale, sizes, difference);
    if (bound.multiple) judge_multiple(a, b, bound, difference);
  }
  return difference;
}

}  // namespace lockstep
