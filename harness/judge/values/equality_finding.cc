#include "harness/judge/values/equality_finding.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/compare/ratio_meaning.h"
#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/settle.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/gradient_attribution.h"

namespace lockstep {

namespace {

/// Relative uncertainty of a tensor's ratio to the reference.
double precision_of(const ExpectedTensor& expected) {
  const bool knows_direction =
      !expected.directions.empty() && expected.directions.front().name == kReference;
  return knows_direction ? expected.directions.front().tolerance
                         : kClearFactor * expected.tolerance.norm / expected.norm;
}

/// Whether the value is a multiple of the expected one. Only a parallel tensor is; a zero tensor
/// has none.
bool is_multiple(const TensorComparison& comparison) {
  const ValueDifference& values = comparison.values;
  if (!values.ratio) return false;
  const double residual = values.norm * values.norm - (*values.ratio - 1) * (*values.ratio - 1) *
                                                          values.right_norm * values.right_norm;
  const double tolerance = comparison.tensor().tolerance.norm;
  return std::abs(residual) <= kClearFactor * tolerance * values.right_norm;
}

/// Of an update: that depends on the optimizer, so numbers of ranks or samples are no cause.
std::optional<Ratio> multiple_of_update(const TensorComparison& comparison) {
  if (!is_multiple(comparison)) return std::nullopt;
  const double precision = precision_of(comparison.tensor());
  if (std::abs(*comparison.values.ratio - 1) <= precision) return std::nullopt;
  return Ratio{simple_factor(*comparison.values.ratio, precision), precision};
}

/// The meaning of the ratio of the value to the expected one; unknown if it is no multiple.
std::optional<RatioMeaning> multiple_of(int world_size, const TensorComparison& comparison) {
  if (!is_multiple(comparison)) return std::nullopt;
  return meaning_of_ratio(*comparison.values.ratio, world_size, precision_of(comparison.tensor()));
}

/// Size of the difference, in the measure that exceeds its tolerance.
std::string size_in_words(const TensorComparison& first) {
  const double tolerance = first.tensor().tolerance.norm;
  const auto fault = clearest_fault(first.tensor(), first.along);
  if (fault && first.distance <= kClearFactor * tolerance) {
    const FaultDirection& direction = first.tensor().directions[*fault];
    return fmt::format(": it differs by {} times {}, tolerance {}", number(first.along[*fault]),
                       direction.name, number(direction.tolerance));
  }
  if (first.tensor().norm == 0) {
    return fmt::format(": the reference is 0, and the norm is {}, tolerance {}",
                       number(first.distance), number(tolerance));
  }
  return fmt::format(": relative difference {}, tolerance {}",
                     number(first.relative(first.distance)), number(first.relative(tolerance)));
}

FindingKind kind_of(GradientAttribution attribution) {
  switch (attribution) {
    case GradientAttribution::own:
      return FindingKind::gradient_never_synchronised;
    case GradientAttribution::other_rank:
      return FindingKind::gradient_of_another_rank;
    case GradientAttribution::mixture:
      break;
  }
  return FindingKind::gradients_mixed_up;
}

/// The kind of a difference whose values say nothing about its cause.
FindingKind plain_kind_of(const Claim& claim, const TensorComparison& first) {
  if (is_undefined(*first.actual) != is_undefined(*first.expected)) {
    return is_undefined(*first.actual) ? FindingKind::nothing_arrived : FindingKind::wrong_values;
  }
  if (!first.structural.empty()) return FindingKind::other_shape;
  if (!std::isfinite(first.values.worst)) return FindingKind::not_finite;
  return claim.kind == Kind::update ? FindingKind::wrong_update : FindingKind::wrong_values;
}

}  // namespace

Finding finding_of_inequality(const CellStep& step, int world_size, const Claim& claim,
                              const TensorComparison& first) {
  Finding finding;
  finding.claim = claim;
  finding.step = first.actual->step;
  finding.tensor = first.actual->name;
  finding.first_difference = first.values.first;
  if (finding.first_difference) {
    finding.first_difference->left = fmt::format("rank {}", first.rank);
    finding.first_difference->right = kReference;
  }
  finding.differing_elements = first.values.differing;
  finding.elements = first.values.elements;
  finding.worst_difference = first.values.worst;
  finding.relative_difference = first.relative(first.distance);
  finding.tolerance = first.relative(first.tensor().tolerance.norm);
  finding.kind = plain_kind_of(claim, first);
  // The finite part of a value says nothing about the rest.
  if (!std::isfinite(first.values.worst)) return finding;
  finding.ratio = first.values.ratio;
  finding.cosine = first.values.cosine;
  if (!first.structural.empty()) return finding;
  const DiagnosedAttribution attribution =
      attribution_of_gradient(step, world_size, *first.actual, first.rank);
  finding.attribution = attribution.kind;
  if (attribution.kind) {
    finding.kind = kind_of(*attribution.kind);
    finding.attribution_in_words = attribution.words;
  } else if (claim.kind == Kind::update) {
    finding.multiple = multiple_of_update(first);
  } else if (const auto multiple = multiple_of(world_size, first)) {
    finding.kind = multiple->kind;
    finding.multiple = multiple->ratio;
  }
  return finding;
}

std::string fault_in_words(const Finding& finding, const TensorComparison& first) {
  std::string text;
  if (!first.structural.empty()) {
    text = ": " + first.structural;
  } else if (std::isnan(first.distance)) {
    text = ": a value is not finite";
  } else if (!is_inexact(first.actual->dtype)) {
    text = fmt::format(": {} of {} whole numbers differ", finding.differing_elements,
                       finding.elements);
  } else {
    text = size_in_words(first);
  }
  if (const std::string origin = origin_in_words(finding); !origin.empty()) {
    text += "; " + origin;
  } else if (finding.ratio && finding.cosine) {
    text += fmt::format("; ratio {}, cosine {}", number(*finding.ratio), number(*finding.cosine));
  }
  if (finding.first_difference) text += "; " + element_in_words(*finding.first_difference);
  return text + ".";
}

}  // namespace lockstep
