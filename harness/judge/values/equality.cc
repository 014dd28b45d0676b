#include "harness/judge/values/equality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/settle.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/compare_values.h"
#include "harness/judge/values/gradient_attribution.h"
#include "harness/judge/values/reference_stability.h"
#include "harness/judge/values/shards.h"

namespace lockstep {

namespace {

/// One tensor of one rank compared with the reference's.
struct TensorComparison {
  int rank = 0;
  const Observation* actual = nullptr;
  const Observation* expected = nullptr;
  const ExpectedValues* values_of_claim = nullptr;
  Verdict verdict = Verdict::holds;
  double distance = 0;        ///< norm of the difference; NaN if a value is missing or not finite
  std::vector<double> along;  ///< its part along each of the tensor's fault directions
  ValueDifference values;
  std::string structural;  ///< a difference other than the value
  std::string reason;      ///< why undecided, if not because of the difference's size

  /// Computed on first use, because bitwise equal tensors need no tolerance.
  const ExpectedTensor& tensor() const { return values_of_claim->of(*expected); }

  /// The distance or the nearest fault, whichever is larger in units of its tolerance.
  double margin() const {
    double largest = distance / tensor().tolerance.norm;
    if (const auto fault = clearest_fault(tensor(), along)) {
      largest = std::max(largest, std::abs(along[*fault]) / tensor().directions[*fault].tolerance);
    }
    return largest;
  }
};

double distance_of(const ValueDifference& values) {
  if (std::isnan(values.worst)) return std::numeric_limits<double>::quiet_NaN();
  // Different bits of equal numbers, such as -0.0: not the same bits, but no numeric difference.
  if (values.worst == 0) return std::numeric_limits<double>::denorm_min();
  return values.norm;
}

/// Their difference other than the value; a shard must lie in the reference's tensor.
std::string structural_difference_of(int rank, const Observation& actual,
                                     const Observation& expected) {
  Observation whole = actual;
  if (is_shard(actual) && lies_in(actual, expected)) whole.global_shape = expected.global_shape;
  return structural_difference(whole, fmt::format("rank {}", rank), expected, kReference);
}

/// The reference's value for the tensor of `actual`; empty if there is no snapshot.
std::optional<SnapshotTensor> expected_value(const ExpectedValues& values,
                                             const Observation& actual,
                                             const Observation& expected) {
  const SnapshotTensor* whole = values.value(expected);
  const bool is_whole = whole && whole->shape == expected.global_shape;
  if (!is_whole) return std::nullopt;
  return is_shard(actual) ? cut(*whole, actual) : *whole;
}

/// Expected values of one step.
struct ExpectedStep {
  const Claim& claim;
  const ExpectedValues& values;
  ReferenceStability& stability;
};

/// If rounding alone moves the reference as far as a fault would, the claim is undecided.
void allow_for_instability(const ExpectedStep& expected, TensorComparison& comparison) {
  if (comparison.verdict == Verdict::holds && comparison.tensor().is_resolved) return;
  std::string reason = expected.stability.instability(expected.claim, expected.values);
  if (reason.empty() && comparison.verdict == Verdict::violated) {
    reason = instability_of(expected.values, *comparison.expected, comparison.distance);
  }
  if (reason.empty()) return;
  comparison.verdict = Verdict::undecided;
  comparison.reason = std::move(reason);
}

/// Indices of a shard's components in the whole tensor; empty for a whole tensor.
std::vector<std::size_t> places_of(const Observation& actual) {
  std::vector<std::size_t> places;
  if (!is_shard(actual)) return places;
  const std::size_t per_element = components(*parse<DType>(actual.dtype));
  for (const Run& run : runs_of(actual)) {
    const auto begin = static_cast<std::size_t>(run.begin) * per_element;
    const auto length = static_cast<std::size_t>(run.length) * per_element;
    for (std::size_t i = 0; i < length; ++i) places.push_back(begin + i);
  }
  return places;
}

/// Requires: the two values differ.
void compare_values(const ExpectedStep& step, const SnapshotTensor& actual,
                    const SnapshotTensor& expected, TensorComparison& comparison) {
  if (!is_inexact(comparison.actual->dtype)) {
    comparison.distance = std::numeric_limits<double>::infinity();
    comparison.verdict = Verdict::violated;
    if (comparison.tensor().is_moved_exactly) {
      comparison.verdict = Verdict::undecided;
      comparison.reason = fmt::format(
          "the reference is not stable here: changing the last bit of the inputs changes whole "
          "numbers of {} in step {}",
          comparison.actual->name, comparison.actual->step);
    }
    return;
  }
  comparison.distance = distance_of(comparison.values);
  if (!comparison.tensor().directions.empty()) {
    comparison.along = along(comparison.tensor(), components_of(actual), components_of(expected),
                             places_of(*comparison.actual));
  }
  // The part of one shard along a direction is meaningless until the others are added.
  const bool is_part = is_shard(*comparison.actual);
  comparison.verdict = verdict_of(comparison.tensor(), comparison.distance,
                                  is_part ? std::vector<double>() : comparison.along);
  allow_for_instability(step, comparison);
}

TensorComparison compare(const StepView& seen, int rank, const Observation& actual,
                         const Observation& expected, const ExpectedStep& step) {
  TensorComparison comparison{rank, &actual, &expected, &step.values};
  comparison.structural = structural_difference_of(rank, actual, expected);
  if (!comparison.structural.empty()) {
    comparison.verdict = Verdict::violated;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    return comparison;
  }
  if (expected.statistics.non_finite > 0) {
    comparison.verdict = Verdict::undecided;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    comparison.reason =
        fmt::format("{} in step {} is not finite in the reference", actual.name, actual.step);
    return comparison;
  }
  if (actual.digest == expected.digest) return comparison;
  const SnapshotTensor* left = seen.kept(rank, actual);
  const std::optional<SnapshotTensor> right = expected_value(step.values, actual, expected);
  if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) {
    comparison.verdict = Verdict::undecided;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    comparison.reason = fmt::format(
        "{} in step {} on rank {} differs from the reference by an unknown amount: a stored value "
        "is missing",
        actual.name, actual.step, rank);
    return comparison;
  }
  comparison.values = difference(*left, *right);
  if (comparison.values.differing == 0) return comparison;
  ElementDifference& first = *comparison.values.first;
  first.index = index_in_whole(first.index, actual, expected);
  compare_values(step, *left, *right, comparison);
  return comparison;
}

/// A norm as a fraction of the reference's; unchanged if that is 0.
double relative(const TensorComparison& comparison, double norm) {
  return comparison.tensor().norm > 0 ? norm / comparison.tensor().norm : norm;
}

/// Relative uncertainty of a tensor's ratio to the reference.
double precision_of(const ExpectedTensor& expected) {
  const bool knows_direction =
      !expected.directions.empty() && expected.directions.front().name == kReference;
  return knows_direction ? expected.directions.front().tolerance
                         : kClearFactor * expected.tolerance.norm / expected.norm;
}

/// The meaning of the ratio of the value to the expected one; unknown if it is no multiple.
RatioMeaning multiple_of(int world_size, const TensorComparison& comparison) {
  const ValueDifference& values = comparison.values;
  if (!values.ratio) return {};
  // Only a parallel tensor is a multiple; a zero tensor has none.
  const double residual = values.norm * values.norm - (*values.ratio - 1) * (*values.ratio - 1) *
                                                          values.right_norm * values.right_norm;
  const double tolerance = comparison.tensor().tolerance.norm;
  if (std::abs(residual) > kClearFactor * tolerance * values.right_norm) return {};
  return meaning_of_ratio(*values.ratio, world_size, precision_of(comparison.tensor()));
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
                     number(relative(first, first.distance)), number(relative(first, tolerance)));
}

/// The fault of the first tensor, as the end of a sentence.
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
  if (!finding.ratio_in_words.empty()) {
    text += "; " + finding.ratio_in_words;
  } else if (finding.ratio && finding.cosine) {
    text += fmt::format("; ratio {}, cosine {}", number(*finding.ratio), number(*finding.cosine));
  }
  if (finding.first_difference) text += "; " + element_in_words(*finding.first_difference);
  return text + ".";
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
FindingKind plain_kind_of(const TensorComparison& first) {
  if (is_undefined(*first.actual) != is_undefined(*first.expected)) {
    return is_undefined(*first.actual) ? FindingKind::nothing_arrived : FindingKind::wrong_values;
  }
  if (!first.structural.empty()) return FindingKind::other_shape;
  return std::isfinite(first.values.worst) ? FindingKind::wrong_values : FindingKind::not_finite;
}

Finding finding_of(const CellStep& step, int world_size, const Claim& claim,
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
  finding.relative_difference = relative(first, first.distance);
  finding.tolerance = relative(first, first.tensor().tolerance.norm);
  finding.kind = plain_kind_of(first);
  // The finite part of a value says nothing about the rest.
  if (!std::isfinite(first.values.worst)) return finding;
  finding.ratio = first.values.ratio;
  finding.cosine = first.values.cosine;
  if (!first.structural.empty()) return finding;
  const DiagnosedAttribution attribution =
      attribution_of_gradient(step, world_size, *first.actual, first.rank);
  finding.attribution = attribution.kind;
  const RatioMeaning meaning = attribution.kind
                                   ? RatioMeaning{kind_of(*attribution.kind), attribution.words}
                                   : multiple_of(world_size, first);
  if (meaning.kind) finding.kind = meaning.kind;
  finding.ratio_in_words = meaning.words;
  return finding;
}

bool precedes(const TensorComparison& a, const TensorComparison& b) {
  return std::tuple(a.actual->seq, a.rank) < std::tuple(b.actual->seq, b.rank);
}

/// Summarises all comparisons.
class ComparedTensors {
 public:
  ComparedTensors(const CellEvidence& cell, const Claim& claim)
      : world_size_(cell.world_size), processes_(cell.evidence->processes()), claim_(claim) {}

  /// Adds all comparisons of a step; steps ascend.
  void add(const CellStep& step, const std::vector<TensorComparison>& comparisons) {
    std::vector<const TensorComparison*> violated;
    for (const TensorComparison& comparison : comparisons) {
      ++comparisons_;
      verdict_ = merge(verdict_, comparison.verdict);
      if (reason_.empty()) reason_ = comparison.reason;
      note_margin(comparison);
      if (comparison.verdict == Verdict::violated) violated.push_back(&comparison);
    }
    if (violated.empty()) return;
    if (!finding_) begin(step, violated);
    places_ += static_cast<std::int64_t>(violated.size());
    finding_->last_step = step.actual.number();
    finding_->last_worst_difference = 0;
    for (const TensorComparison* comparison : violated) {
      ranks_.insert(comparison->rank);
      finding_->last_worst_difference =
          worse(finding_->last_worst_difference, comparison->values.worst);
    }
  }

  bool is_empty() const { return comparisons_ == 0; }

  void write(ClaimResult& result) {
    result.comparisons = comparisons_;
    result.margin = margin_;
    if (margin_) result.tolerance = tolerance_;
    result.tolerance_from = tolerance_from_;
    result.verdict = verdict_;
    if (result.reason.empty() && verdict_ == Verdict::undecided) result.reason = reason_;
    if (!finding_) return;
    finding_->places = places_;
    for (const int rank : ranks_) finding_->groups.push_back({rank});
    finding_->sentence = sentence();
    result.findings.push_back(std::move(*finding_));
  }

 private:
  /// The first violated step gives the position and the form of the fault.
  void begin(const CellStep& step, const std::vector<const TensorComparison*>& violated) {
    const TensorComparison& first = **std::min_element(
        violated.begin(), violated.end(),
        [](const TensorComparison* a, const TensorComparison* b) { return precedes(*a, *b); });
    finding_ = finding_of(step, world_size_, claim_, first);
    fault_ = fault_in_words(*finding_, first);
    first_rank_ = first.rank;
    std::set<std::pair<std::int64_t, std::string>> observed;
    for (const TensorComparison* comparison : violated) {
      observed.emplace(comparison->actual->seq, comparison->actual->name);
    }
    std::vector<std::string>& names = finding_->tensors;  // in the order of observation
    for (const auto& [seq, name] : observed) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }

  std::string sentence() const {
    std::string text =
        fmt::format("{} do not equal the reference: first in step {}, {} on rank {}",
                    plural(*claim_.kind), finding_->step, finding_->tensor, first_rank_);
    if (ranks_.size() > 1) {
      text += fmt::format(" ({} of {} ranks are off)", ranks_.size(), processes_);
    }
    return text + fault_;
  }

  void note_margin(const TensorComparison& comparison) {
    if (!std::isfinite(comparison.distance) || (margin_ && comparison.distance == 0)) return;
    if (comparison.tensor().tolerance.norm == 0) return;
    const double margin = comparison.margin();
    if (margin_ && margin <= *margin_) return;
    margin_ = margin;
    tolerance_ = relative(comparison, comparison.tensor().tolerance.norm);
    tolerance_from_ = comparison.tensor().tolerance.from;
  }

  int world_size_ = 0;
  int processes_ = 0;
  Claim claim_;
  std::int64_t comparisons_ = 0;
  std::int64_t places_ = 0;  ///< violated (step, tensor) pairs
  Verdict verdict_ = Verdict::holds;
  std::optional<double> margin_;
  double tolerance_ = 0;  ///< at the margin, relative to the tensor
  std::string tolerance_from_;
  std::string reason_;
  std::optional<Finding> finding_;
  std::string fault_;  ///< the end of its sentence
  int first_rank_ = 0;
  std::set<int> ranks_;  ///< differing ranks
};

bool is_nothing_on_both(const Observation& actual, const Observation& reference) {
  return !actual.not_comparable.empty() && actual.not_comparable == reference.not_comparable;
}

/// Ranks that observed a tensor of the reference.
struct Seen {
  std::set<int> ranks;
  bool has_copies = false;  ///< a rank holds more than a shard of its own
  std::vector<const Observation*> parts;

  void add(int rank, const Observation& actual, const Observation& whole) {
    ranks.insert(rank);
    if (actual.replica_group != group_of_one(rank)) has_copies = true;
    if (lies_in(actual, whole)) parts.push_back(&actual);
  }
};

/// The unobserved part of a tensor, in words; empty if there is none. Shards must cover the whole
/// tensor; copies must be observed on every rank.
std::string missing_of(const Observation& whole, const Seen& seen, int processes) {
  const bool is_for_all = seen.ranks.empty() || seen.has_copies;
  if (is_for_all && static_cast<int>(seen.ranks.size()) != processes) {
    return fmt::format("{} in step {} was not observed on every rank", whole.name, whole.step);
  }
  const auto gap = first_gap(whole, seen.parts);
  if (!gap || seen.parts.empty()) return "";
  return fmt::format("{} elements of {} in step {}, from {} on, are in no rank's shard",
                     gap->length, whole.name, whole.step,
                     shape_in_words(index_of(gap->begin, whole.global_shape)));
}

/// The first tensor of a reference step that was not fully observed, in words; empty if all were.
std::string first_missing(const ExpectedValues& expected, const std::map<TensorKey, Seen>& seen,
                          int processes) {
  for (const auto& [key, observation] : expected.tensors()) {
    const auto found = seen.find(key);
    std::string missing =
        missing_of(*observation, found == seen.end() ? Seen() : found->second, processes);
    if (!missing.empty()) return missing;
  }
  return "";
}

/// Treats the shards of a tensor as one tensor: their total difference is reported for the shard
/// that differs most. Of several copies of a shard the worst counts.
void add_up_shards(const ExpectedStep& step, std::vector<TensorComparison>& comparisons) {
  using Offsets = std::vector<std::int64_t>;
  std::map<TensorKey, std::vector<TensorComparison*>> by_tensor;
  for (TensorComparison& comparison : comparisons) {
    const bool is_off = comparison.distance > 0 && std::isfinite(comparison.distance);
    if (is_off && is_shard(*comparison.actual)) {
      by_tensor[key_of(*comparison.actual)].push_back(&comparison);
    }
  }
  for (const auto& [key, shards] : by_tensor) {
    std::map<Offsets, const TensorComparison*> worst;
    for (const TensorComparison* shard : shards) {
      const TensorComparison*& here = worst[shard->actual->offset];
      if (!here || shard->distance > here->distance) here = shard;
    }
    double squares = 0;
    std::vector<double> along(shards.front()->along.size());
    for (const auto& [offset, shard] : worst) {
      squares += shard->distance * shard->distance;
      std::transform(along.begin(), along.end(), shard->along.begin(), along.begin(),
                     std::plus<>());
    }
    TensorComparison& furthest = **std::max_element(
        shards.begin(), shards.end(), [](const TensorComparison* a, const TensorComparison* b) {
          return a->distance < b->distance;
        });
    furthest.distance = std::max(furthest.distance, std::sqrt(squares));
    furthest.along = std::move(along);
    furthest.verdict = verdict_of(furthest.tensor(), furthest.distance, furthest.along);
    allow_for_instability(step, furthest);
  }
}

class EqualityFold : public ClaimFold {
 public:
  EqualityFold(const CellEvidence& cell, const Claim& claim, const ReferenceRun& run,
               ReferenceStability& stability)
      : cell_(cell), claim_(claim), run_(run), stability_(stability), compared_(cell, claim) {}

  void see(const CellStep& step) override {
    const ExpectedValues values(run_, claim_, *step.reference);
    const ExpectedStep expected{claim_, values, stability_};
    std::map<TensorKey, Seen> seen;
    std::vector<TensorComparison> comparisons;
    for (int rank = 0; rank < step.actual.processes(); ++rank) {
      for (const Observation& actual : step.actual.observations(rank)) {
        if (!concerns(claim_, actual)) continue;
        const Observation* const whole = values.find(actual);
        if (!whole) {
          note_obstacle(missing_in_reference(cell_, actual));
          continue;
        }
        seen[key_of(actual)].add(rank, actual, *whole);
        if (!is_nothing_on_both(actual, *whole)) {
          comparisons.push_back(compare(step.actual, rank, actual, *whole, expected));
        } else if (!is_undefined(actual)) {
          note_obstacle(incomparable_in_words(actual));
        }
      }
    }
    add_up_shards(expected, comparisons);
    compared_.add(step, comparisons);
    if (missing_.empty()) missing_ = first_missing(values, seen, step.actual.processes());
  }

  void write(ClaimResult& result) override {
    result.reason = obstacle_.empty() ? missing_ : obstacle_;
    if (compared_.is_empty()) {
      if (result.reason.empty()) result.reason = "not triggered: nothing was compared";
      return;
    }
    compared_.write(result);
    settle(result, fmt::format("the largest difference is {} times the tolerance: more than "
                               "rounding explains, but less than the {} times that prove a fault",
                               number(result.margin.value_or(0)), number(kClearFactor)));
  }

 private:
  void note_obstacle(std::string obstacle) {
    if (obstacle_.empty()) obstacle_ = std::move(obstacle);
  }

  const CellEvidence& cell_;
  Claim claim_;
  const ReferenceRun& run_;
  ReferenceStability& stability_;
  ComparedTensors compared_;
  std::string obstacle_;  ///< the first impossible comparison
  std::string missing_;   ///< the first missing observation
};

}  // namespace

std::unique_ptr<ClaimFold> fold_equality(const CellEvidence& cell, const Claim& claim,
                                         const ReferenceRun& run, ReferenceStability& stability) {
  return std::make_unique<EqualityFold>(cell, claim, run, stability);
}

}  // namespace lockstep
