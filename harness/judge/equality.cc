#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "harness/judge/compare_values.h"
#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

/// A tensor at the claim's point: step, micro-batch, name.
using TensorKey = std::tuple<std::int64_t, std::int64_t, std::string>;

TensorKey key_of(const Observation& observation) {
  return {observation.step, observation.micro_batch, observation.name};
}

/// What the reference notes of one rank alone is not what all ranks should hold.
bool is_about_one_rank(const Observation& observation) {
  return !observation.replica_group.empty();
}

struct Expected {
  std::map<TensorKey, const Observation*> tensors;
  std::map<std::int64_t, double> squared_norm;  ///< of all tensors of a step together
  std::map<TensorKey, double> moved;            ///< norm, by the worst perturbed reference
  int perturbed = 0;                            ///< number of perturbed references

  /// Of all tensors of the kind in `step`.
  double norm(std::int64_t step) const { return std::sqrt(squared_norm.at(step)); }
};

/// How far the perturbed references moved each tensor.
void add_moves(const Evidence& reference, const Claim& claim, Expected& expected) {
  expected.perturbed = reference.processes() - 1;
  for (int rank = 1; rank < reference.processes(); ++rank) {
    for (const Observation& observation : reference.observations(rank)) {
      if (!concerns(claim, observation) || is_about_one_rank(observation)) continue;
      const auto plain = expected.tensors.find(key_of(observation));
      if (plain == expected.tensors.end()) continue;
      const KeptTensor* left = reference.kept(rank, observation);
      const KeptTensor* right = reference.kept(0, *plain->second);
      if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) continue;
      double& moved = expected.moved[plain->first];
      moved = std::max(moved, difference(*left, *right).norm);
    }
  }
}

Expected expected_of(const Case& the_case, const Claim& claim) {
  Expected expected;
  for (const Observation& observation : the_case.reference->observations(0)) {
    if (!concerns(claim, observation) || is_about_one_rank(observation)) continue;
    expected.tensors[key_of(observation)] = &observation;
  }
  for (const auto& [key, observation] : expected.tensors) {
    expected.squared_norm[observation->step] +=
        observation->statistics.norm * observation->statistics.norm;
  }
  add_moves(*the_case.reference, claim, expected);
  return expected;
}

/// One tensor of one rank beside the reference's.
struct Comparison {
  int rank = 0;
  const Observation* actual = nullptr;
  const Observation* expected = nullptr;
  Verdict verdict = Verdict::holds;
  double relative = 0;  ///< NaN where a value is not finite or there is none
  double tolerance = 0;
  std::string tolerance_from;
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
  if (values.worst == 0) return 0;  // the norm of a tiny difference may be 0
  return global_norm > 0 ? values.norm / global_norm : std::numeric_limits<double>::infinity();
}

void set_tolerance(const Case& the_case, const Expected& all, Comparison& comparison) {
  const Observation& actual = *comparison.actual;
  const auto dtype = parse<DType>(actual.dtype);
  const double unit = dtype ? unit_roundoff(component_type(*dtype)) : 0;
  const auto found = all.moved.find(key_of(actual));
  const double norm = all.norm(actual.step);
  const double moved = found == all.moved.end() || norm == 0 ? 0 : found->second / norm;
  // Without perturbed references nothing says how far differences of earlier steps are carried.
  const double terms = rounding_tolerance(unit, the_case.world_size) *
                       (all.perturbed > 0 ? 1 : static_cast<double>(actual.step));
  comparison.tolerance = reference_tolerance(moved, terms);
  comparison.tolerance_from = comparison.tolerance > terms
                                  ? fmt::format("{} perturbed references", all.perturbed)
                                  : "roundings of a sum over the ranks";
}

Comparison compare(const Case& the_case, int rank, const Observation& actual,
                   const Observation& expected, const Expected& all) {
  Comparison comparison{rank, &actual, &expected};
  comparison.structural =
      structural_difference(actual, fmt::format("rank {}", rank), expected, kReference);
  if (!comparison.structural.empty()) {
    comparison.verdict = Verdict::violated;
    comparison.relative = std::numeric_limits<double>::quiet_NaN();
    return comparison;
  }
  set_tolerance(the_case, all, comparison);
  if (actual.fingerprint == expected.fingerprint) return comparison;
  const KeptTensor* left = the_case.evidence->kept(rank, actual);
  const KeptTensor* right = the_case.reference->kept(0, expected);
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
  comparison.relative = relative_difference(comparison.values, all.norm(actual.step));
  comparison.verdict = verdict_of(comparison.relative, comparison.tolerance);
  return comparison;
}

/// What the value is beside what it should be, as far as it can be told.
std::string diagnosis_of(const Case& the_case, const Comparison& comparison) {
  const std::string origin = origin_of_gradient(the_case, *comparison.actual, comparison.rank);
  if (!origin.empty()) return origin;
  const ValueDifference& values = comparison.values;
  if (!values.ratio) return "";
  // Only a tensor of the same direction is a multiple; a zero tensor has none.
  const double residual = values.norm * values.norm - (*values.ratio - 1) * (*values.ratio - 1) *
                                                          values.right_norm * values.right_norm;
  const double precision = 10 * comparison.tolerance;
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
  } else {
    text += fmt::format(": relative difference {} where rounding explains {}",
                        number(first.relative), number(first.tolerance));
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
  finding.tolerance = first.tolerance;
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
    result.tolerance = tolerance_;
    result.tolerance_from = tolerance_from_;
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
    if (comparison.tolerance == 0 || !std::isfinite(comparison.relative)) return;
    const double margin = comparison.relative / comparison.tolerance;
    if (margin_ && margin <= *margin_) return;
    margin_ = margin;
    tolerance_ = comparison.tolerance;
    tolerance_from_ = comparison.tolerance_from;
  }

  std::int64_t comparisons_ = 0;
  std::int64_t places_ = 0;
  std::int64_t last_step_ = 0;
  double last_worst_ = 0;
  Verdict verdict_ = Verdict::holds;
  std::optional<double> margin_;
  std::optional<double> tolerance_;  ///< where the margin is
  std::string tolerance_from_;
  std::optional<Comparison> first_;
  std::string reason_;
  std::set<int> ranks_;
};

}  // namespace

double rounding_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * world_size;
}

double reference_tolerance(double moved, double rounding_tolerance) {
  constexpr double kMost = 0.05;
  return std::min(std::max(kPerturbationFactor * moved, rounding_tolerance), kMost);
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): to be cut into parts
void judge_equality(const Case& the_case, ClaimResult& result) {
  if (!the_case.reference) {
    result.reason = "not triggered: there is no reference";
    return;
  }
  const Expected expected = expected_of(the_case, result.claim);
  std::map<TensorKey, std::set<int>> seen;
  Tally tally;
  for (int rank = 0; rank < the_case.evidence->processes(); ++rank) {
    for (const Observation& actual : the_case.evidence->observations(rank)) {
      if (!concerns(result.claim, actual)) continue;
      const TensorKey key = key_of(actual);
      const auto found = expected.tensors.find(key);
      if (found == expected.tensors.end()) {
        result.reason = fmt::format("the reference has no {} in step {}", actual.name, actual.step);
        continue;
      }
      seen[key].insert(rank);
      const Observation& reference = *found->second;
      if (!actual.not_comparable.empty() && actual.not_comparable == reference.not_comparable) {
        if (!is_undefined(actual)) result.reason = incomparable_in_words(actual);
        continue;
      }
      tally.add(compare(the_case, rank, actual, reference, expected));
    }
  }
  for (const auto& [key, observation] : expected.tensors) {
    const auto holders = static_cast<int>(seen[key].size());
    if (holders < the_case.evidence->processes() && result.reason.empty()) {
      result.reason = fmt::format("{} in step {} was not observed on every rank", observation->name,
                                  observation->step);
    }
  }
  if (tally.is_empty()) {
    if (result.reason.empty()) result.reason = "not triggered: nothing was compared";
    return;
  }
  tally.write(the_case, result);
  if (result.verdict == Verdict::violated) {
    result.reason.clear();
  } else if (!result.reason.empty()) {
    result.verdict = Verdict::undecided;
  } else if (result.verdict == Verdict::undecided) {
    result.reason = fmt::format(
        "the largest difference is {} tolerances, more than rounding explains and less than the {} "
        "that show a fault",
        number(result.margin.value_or(0)), number(kClearFactor));
  }
}

}  // namespace lockstep
