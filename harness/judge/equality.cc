#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "harness/judge/compare_values.h"
#include "harness/judge/expected_values.h"
#include "harness/judge/predicates.h"
#include "harness/judge/shards.h"

namespace lockstep {

namespace {

/// One tensor of one rank beside the reference's.
struct Comparison {
  int rank = 0;
  const Observation* actual = nullptr;
  const Observation* expected = nullptr;
  Verdict verdict = Verdict::holds;
  double relative = 0;  ///< NaN where a value is not finite or there is none
  Tolerance tolerance;
  ValueDifference values;
  std::string structural;  ///< how they differ where it is not a value
  std::string reason;      ///< why undecided, where it is not for the size of the difference
};

Verdict verdict_of(double relative, double tolerance) {
  if (relative <= tolerance) return Verdict::holds;
  if (relative <= kClearFactor * tolerance) return Verdict::undecided;
  return Verdict::violated;  // NaN too
}

double relative_difference(const ValueDifference& values, double global_norm) {
  if (std::isnan(values.worst)) return std::numeric_limits<double>::quiet_NaN();
  // Other bits of equal numbers, such as -0.0, are no difference and yet not the same bits.
  if (values.worst == 0) return std::numeric_limits<double>::denorm_min();
  return global_norm > 0 ? values.norm / global_norm : std::numeric_limits<double>::infinity();
}

/// How they differ where it is not a value; a shard has to lie in the reference's tensor.
std::string structural_difference_of(int rank, const Observation& actual,
                                     const Observation& expected) {
  Observation whole = actual;
  if (is_shard(actual) && lies_in(actual, expected)) whole.global_shape = expected.global_shape;
  return structural_difference(whole, fmt::format("rank {}", rank), expected, kReference);
}

/// The reference's value of what `actual` is of; nothing where none was kept.
std::optional<KeptTensor> expected_value(const Case& the_case, const Observation& actual,
                                         const Observation& expected) {
  const KeptTensor* whole = the_case.reference->kept(0, expected);
  if (!whole || whole->shape != expected.local_shape) return std::nullopt;
  return is_shard(actual) ? cut(*whole, actual) : *whole;
}

Comparison compare(const Case& the_case, int rank, const Observation& actual,
                   const Observation& expected, const ExpectedValues& all) {
  Comparison comparison{rank, &actual, &expected};
  comparison.structural = structural_difference_of(rank, actual, expected);
  if (!comparison.structural.empty()) {
    comparison.verdict = Verdict::violated;
    comparison.relative = std::numeric_limits<double>::quiet_NaN();
    return comparison;
  }
  comparison.tolerance = all.tolerance(actual);
  if (expected.statistics.non_finite > 0) {
    comparison.verdict = Verdict::undecided;
    comparison.relative = std::numeric_limits<double>::quiet_NaN();
    comparison.reason =
        fmt::format("{} in step {} is not finite in the reference", actual.name, actual.step);
    return comparison;
  }
  if (actual.fingerprint == expected.fingerprint) return comparison;
  const KeptTensor* left = the_case.evidence->kept(rank, actual);
  const std::optional<KeptTensor> right = expected_value(the_case, actual, expected);
  if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) {
    comparison.verdict = Verdict::undecided;
    comparison.relative = std::numeric_limits<double>::quiet_NaN();
    comparison.reason = fmt::format(
        "{} in step {} on rank {} differs from the reference, and there are no two whole values to "
        "say by how much",
        actual.name, actual.step, rank);
    return comparison;
  }
  comparison.values = difference(*left, *right);
  if (comparison.values.differing == 0) return comparison;
  ElementDifference& first = *comparison.values.first;
  first.index = index_in_whole(first.index, actual, expected);
  comparison.relative = is_inexact(actual.dtype)
                            ? relative_difference(comparison.values, all.norm(actual.step))
                            : std::numeric_limits<double>::infinity();
  comparison.verdict = verdict_of(comparison.relative, comparison.tolerance.value);
  return comparison;
}

/// What the value is beside what it should be, as far as it can be told.
std::string diagnosis_of(const Case& the_case, const Comparison& comparison) {
  std::string origin = origin_of_gradient(the_case, *comparison.actual, comparison.rank);
  if (!origin.empty()) return origin;
  const ValueDifference& values = comparison.values;
  if (!values.ratio) return "";
  // Only a tensor of the same direction is a multiple; a zero tensor has none.
  const double residual = values.norm * values.norm - (*values.ratio - 1) * (*values.ratio - 1) *
                                                          values.right_norm * values.right_norm;
  const double precision = 10 * comparison.tolerance.value;
  if (std::abs(residual) > precision * values.right_norm * values.right_norm) return "";
  return ratio_in_words(*values.ratio, the_case.world_size, precision);
}

std::string sentence_of(const Finding& finding, const Comparison& first, int ranks,
                        int violating_ranks) {
  std::string text =
      fmt::format("{} do not equal the reference: first in step {}, {} on rank {}",
                  plural(*finding.claim.kind), finding.step, finding.tensor, first.rank);
  if (violating_ranks > 1) {
    text += fmt::format(" ({} of {} ranks are off)", violating_ranks, ranks);
  }
  if (!first.structural.empty()) {
    text += ": " + first.structural;
  } else if (std::isnan(first.relative)) {
    text += ": a value is not finite";
  } else if (!is_inexact(first.actual->dtype)) {
    text += fmt::format(": {} of {} whole numbers differ", finding.differing_elements,
                        finding.elements);
  } else {
    text += fmt::format(": relative difference {} where rounding explains {}",
                        number(first.relative), number(first.tolerance.value));
  }
  if (!finding.ratio_in_words.empty()) {
    text += "; " + finding.ratio_in_words;
  } else if (finding.ratio && finding.cosine) {
    text += fmt::format("; ratio {}, cosine {}", number(*finding.ratio), number(*finding.cosine));
  }
  if (finding.first_difference) text += "; " + element_in_words(*finding.first_difference);
  return text + ".";
}

Finding finding_of(const Case& the_case, const Claim& claim, const Comparison& first) {
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
  finding.relative_difference = first.relative;
  finding.tolerance = first.tolerance.value;
  // What is finite of a value says nothing of the rest.
  if (!std::isfinite(first.values.worst)) return finding;
  finding.ratio = first.values.ratio;
  finding.cosine = first.values.cosine;
  if (first.structural.empty()) finding.ratio_in_words = diagnosis_of(the_case, first);
  return finding;
}

bool precedes(const Comparison& a, const Comparison& b) {
  return std::tuple(a.actual->step, a.actual->seq, a.rank) <
         std::tuple(b.actual->step, b.actual->seq, b.rank);
}

/// Everything that was compared, boiled down.
class Tally {
 public:
  void add(const Comparison& comparison) {
    ++comparisons_;
    verdict_ = merge(verdict_, comparison.verdict);
    if (reason_.empty()) reason_ = comparison.reason;
    note_margin(comparison);
    if (comparison.verdict != Verdict::violated) return;
    ++places_;
    ranks_.insert(comparison.rank);
    if (!first_ || precedes(comparison, *first_)) first_ = comparison;
    const auto step = comparison.actual->step;
    if (step > last_step_) last_worst_ = 0;
    last_step_ = std::max(last_step_, step);
    if (step == last_step_) last_worst_ = worse(last_worst_, comparison.values.worst);
  }

  bool is_empty() const { return comparisons_ == 0; }

  void write(const Case& the_case, ClaimResult& result) const {
    result.comparisons = comparisons_;
    result.margin = margin_;
    if (margin_) result.tolerance = tolerance_.value;
    result.tolerance_from = tolerance_.from;
    result.verdict = verdict_;
    if (result.reason.empty() && verdict_ == Verdict::undecided) result.reason = reason_;
    if (!first_) return;
    Finding finding = finding_of(the_case, result.claim, *first_);
    finding.places = places_;
    finding.last_step = last_step_;
    finding.last_worst_difference = last_worst_;
    for (const int rank : ranks_) finding.groups.push_back({rank});
    finding.sentence = sentence_of(finding, *first_, the_case.evidence->processes(),
                                   static_cast<int>(ranks_.size()));
    result.findings.push_back(std::move(finding));
  }

 private:
  void note_margin(const Comparison& comparison) {
    if (comparison.tolerance.value == 0 || !std::isfinite(comparison.relative)) return;
    const double margin = comparison.relative / comparison.tolerance.value;
    if (margin_ && margin <= *margin_) return;
    margin_ = margin;
    tolerance_ = comparison.tolerance;
  }

  std::int64_t comparisons_ = 0;
  std::int64_t places_ = 0;
  std::int64_t last_step_ = 0;
  double last_worst_ = 0;
  Verdict verdict_ = Verdict::holds;
  std::optional<double> margin_;
  Tolerance tolerance_;  ///< where the margin is
  std::optional<Comparison> first_;
  std::string reason_;
  std::set<int> ranks_;
};

bool is_nothing_on_both(const Observation& actual, const Observation& reference) {
  return !actual.not_comparable.empty() && actual.not_comparable == reference.not_comparable;
}

/// Who looked at a tensor of the reference.
struct Seen {
  std::set<int> ranks;
  bool has_copies = false;  ///< somebody holds what is no shard of one rank alone
  std::vector<const Observation*> parts;

  void add(int rank, const Observation& actual, const Observation& whole) {
    ranks.insert(rank);
    if (actual.replica_group != group_of_one(rank)) has_copies = true;
    if (lies_in(actual, whole)) parts.push_back(&actual);
  }
};

/// What of a tensor nobody looked at, in words; empty when all was. What ranks alone hold has to be
/// the whole together; where there are copies every rank has to have looked.
std::string missing_of(const Observation& whole, const Seen& seen, int processes) {
  const bool is_for_all = seen.ranks.empty() || seen.has_copies;
  if (is_for_all && static_cast<int>(seen.ranks.size()) != processes) {
    return fmt::format("{} in step {} was not observed on every rank", whole.name, whole.step);
  }
  const auto gap = first_gap(whole, seen.parts);
  if (!gap || seen.parts.empty()) return "";
  return fmt::format("{} in step {} has {} elements from {} on that are in no rank's shard",
                     whole.name, whole.step, gap->length,
                     shape_in_words(index_of(gap->begin, whole.global_shape)));
}

/// The first tensor of the reference that was not wholly looked at, in words; empty when all were.
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

/// The shards of a tensor are one tensor: what is off in all of them together is told of the one
/// that is furthest off. Of copies of a shard the worst counts.
void add_up_shards(std::vector<Comparison>& comparisons) {
  using Offsets = std::vector<std::int64_t>;
  std::map<TensorKey, std::vector<Comparison*>> by_tensor;
  for (Comparison& comparison : comparisons) {
    const bool is_measured = comparison.tolerance.value > 0 && std::isfinite(comparison.relative);
    if (is_measured && is_shard(*comparison.actual)) {
      by_tensor[key_of(*comparison.actual)].push_back(&comparison);
    }
  }
  for (const auto& [key, shards] : by_tensor) {
    std::map<Offsets, double> worst;
    for (const Comparison* shard : shards) {
      double& here = worst[shard->actual->offset];
      here = std::max(here, shard->relative);
    }
    double squares = 0;
    for (const auto& [offset, relative] : worst) squares += relative * relative;
    Comparison& furthest = **std::max_element(
        shards.begin(), shards.end(),
        [](const Comparison* a, const Comparison* b) { return a->relative < b->relative; });
    furthest.relative = std::max(furthest.relative, std::sqrt(squares));
    furthest.verdict = verdict_of(furthest.relative, furthest.tolerance.value);
  }
}

/// Compares what the claim is about, tensor by tensor. Returns why not everything could be
/// compared; empty when it could.
std::string compare_all(const Case& the_case, const Claim& claim, const ExpectedValues& expected,
                        Tally& tally) {
  std::string reason;
  std::map<TensorKey, Seen> seen;
  std::vector<Comparison> comparisons;
  for (int rank = 0; rank < the_case.evidence->processes(); ++rank) {
    for (const Observation& actual : the_case.evidence->observations(rank)) {
      if (!concerns(claim, actual)) continue;
      const Observation* const reference = expected.find(actual);
      if (!reference) {
        reason = fmt::format("the reference has no {} in step {}", actual.name, actual.step);
        continue;
      }
      seen[key_of(actual)].add(rank, actual, *reference);
      if (!is_nothing_on_both(actual, *reference)) {
        comparisons.push_back(compare(the_case, rank, actual, *reference, expected));
      } else if (!is_undefined(actual)) {
        reason = incomparable_in_words(actual);
      }
    }
  }
  add_up_shards(comparisons);
  for (const Comparison& comparison : comparisons) tally.add(comparison);
  return reason.empty() ? first_missing(expected, seen, the_case.evidence->processes()) : reason;
}

}  // namespace

void judge_equality(const Case& the_case, ClaimResult& result) {
  if (!the_case.reference) {
    result.reason = "not triggered: there is no reference";
    return;
  }
  const ExpectedValues expected(*the_case.reference, result.claim, the_case.world_size);
  Tally tally;
  result.reason = compare_all(the_case, result.claim, expected, tally);
  if (tally.is_empty()) {
    if (result.reason.empty()) result.reason = "not triggered: nothing was compared";
    return;
  }
  tally.write(the_case, result);
  settle(result, fmt::format("the largest difference is {} tolerances, more than rounding explains "
                             "and less than the {} that show a fault",
                             number(result.margin.value_or(0)), number(kClearFactor)));
}

}  // namespace lockstep
