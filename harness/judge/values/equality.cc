#include "harness/judge/values/equality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
#include "harness/judge/values/equality_finding.h"
#include "harness/judge/values/shards.h"
#include "harness/judge/values/tensor_comparison.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

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
    finding_ = finding_of_inequality(step, world_size_, claim_, first);
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
    tolerance_ = comparison.relative(comparison.tensor().tolerance.norm);
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
    std::vector<int> missing;
    for (int rank = 0; rank < processes; ++rank) {
      if (!seen.ranks.contains(rank)) missing.push_back(rank);
    }
    return fmt::format("{} in step {} was not observed on {}", whole.name, whole.step,
                       seen.ranks.empty() ? "any rank" : ranks_in_words(missing));
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
          comparisons.push_back(
              compare_with_reference(step.actual, rank, actual, *whole, expected));
        } else if (!is_undefined(actual)) {
          note_obstacle(incomparable_in_words(actual, actual.step));
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
