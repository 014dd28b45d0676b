#include "harness/judge/values/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/settle.h"
#include "harness/judge/evidence/value_place.h"
#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

/// Memory needs of a step, by name.
using Needs = std::map<std::string, std::int64_t>;

/// One number of one rank compared with the reference's.
struct Excess {
  int rank = 0;
  ValuePlace place;
  std::int64_t bytes = 0;
  std::int64_t reference = 0;  ///< not 0
  double margin = 0;           ///< in tenths of the reference
};

std::string place_in_words(const Observation& observation, const std::string& holder) {
  return fmt::format("{} in step {} {}", observation.name, observation.step, holder);
}

/// The reference's numbers in a step; of several micro-batches the largest. Sets `reason` if a
/// number is unreadable or 0: then the memory was not measured, and a limit of 0 has no multiples.
Needs needs_of(const StepView& reference, const Claim& claim, std::string& reason) {
  Needs needs;
  for (const Observation& observation : reference.observations(0)) {
    if (!concerns(claim, observation) || !observation.replica_group.empty()) continue;
    const auto bytes = bytes_of(reference.kept(0, observation));
    if (!bytes) {
      if (reason.empty()) {
        reason = place_in_words(observation, "is not a number of bytes in the reference");
      }
      continue;
    }
    std::int64_t& most = needs[observation.name];
    most = std::max(most, *bytes);
  }
  for (const auto& [name, bytes] : needs) {
    if (bytes > 0 || !reason.empty()) continue;
    reason = fmt::format("{} in step {} is 0 bytes in the reference, so there is no ratio", name,
                         reference.number());
  }
  return needs;
}

/// Summarises all comparisons with the reference.
class Excesses {
 public:
  void add(const Excess& excess) {
    ++comparisons_;
    if (!margin_ || excess.margin > *margin_) margin_ = excess.margin;
    verdict_ = merge(verdict_, verdict_of(excess));
    if (verdict_of(excess) != Verdict::violated) return;
    ++places_;
    last_step_ = std::max(last_step_, excess.place.step);
    if (!first_ || precedes(excess, *first_)) first_ = excess;
  }

  bool is_empty() const { return comparisons_ == 0; }

  void write(ClaimResult& result) const {
    result.comparisons = comparisons_;
    result.margin = margin_;
    result.verdict = verdict_;
    if (!first_) return;
    Finding finding;
    finding.claim = result.claim;
    finding.kind = FindingKind::memory_above_reference;
    finding.step = first_->place.step;
    finding.tensor = first_->place.tensor;
    finding.groups = {{first_->rank}};
    finding.worst_difference = static_cast<double>(first_->bytes - first_->reference);
    finding.ratio = static_cast<double>(first_->bytes) / static_cast<double>(first_->reference);
    finding.places = places_;
    finding.last_step = last_step_;
    finding.sentence = fmt::format(
        "memory exceeds the reference's: first in step {}, {} on rank {}: {} bytes, {:.3g} times "
        "the reference's {}.",
        finding.step, finding.tensor, first_->rank, first_->bytes, *finding.ratio,
        first_->reference);
    result.findings.push_back(std::move(finding));
  }

 private:
  static Verdict verdict_of(const Excess& excess) {
    if (excess.margin <= 1) return Verdict::holds;
    return excess.margin <= kClearFactor ? Verdict::undecided : Verdict::violated;
  }

  static bool precedes(const Excess& a, const Excess& b) {
    return std::tuple(a.place.step, a.place.seq, a.rank) <
           std::tuple(b.place.step, b.place.seq, b.rank);
  }

  std::int64_t comparisons_ = 0;
  std::optional<double> margin_;
  Verdict verdict_ = Verdict::holds;
  std::int64_t places_ = 0;
  std::int64_t last_step_ = 0;
  std::optional<Excess> first_;
};

class MemoryLimitFold : public ClaimFold {
 public:
  MemoryLimitFold(const CellEvidence& cell, const Claim& claim)
      : cell_(cell),
        claim_(claim),
        reasons_(static_cast<std::size_t>(cell.evidence->processes())) {}

  void see(const CellStep& step) override {
    const Needs needs = needs_of(*step.reference, claim_, reference_reason_);
    for (int rank = 0; rank < step.actual.processes(); ++rank) see(step.actual, rank, needs);
  }

  void write(ClaimResult& result) override {
    result.reason = reference_reason_;
    for (const std::string& reason : reasons_) {
      if (result.reason.empty()) result.reason = reason;
    }
    if (excesses_.is_empty()) {
      if (result.reason.empty()) result.reason = "not triggered: nothing was compared";
      return;
    }
    result.tolerance = 0.1;
    result.tolerance_from = "a tenth of the reference";
    excesses_.write(result);
    settle(result, fmt::format("up to {} times the reference's memory: more than the 1.1 times "
                               "that are allowed, but not more than the 2 times that prove a fault",
                               number(1 + result.margin.value_or(0) / 10)));
  }

 private:
  /// Compares a rank's numbers with the reference's, and records the first impossible comparison.
  void see(const StepView& step, int rank, const Needs& needs) {
    std::string& reason = reasons_[static_cast<std::size_t>(rank)];
    const auto note = [&](std::string obstacle) {
      if (reason.empty()) reason = std::move(obstacle);
    };
    Needs unseen = needs;
    for (const Observation& actual : step.observations(rank)) {
      if (!concerns(claim_, actual)) continue;
      unseen.erase(actual.name);
      const auto expected = needs.find(actual.name);
      const auto bytes = bytes_of(step.kept(rank, actual));
      if (expected == needs.end()) {
        note(missing_in_reference(cell_, actual));
      } else if (!bytes) {
        note(place_in_words(actual, fmt::format("is not a number of bytes on rank {}", rank)));
      } else if (expected->second > 0) {
        const auto most = static_cast<double>(expected->second);
        const double above = 10 * (static_cast<double>(*bytes) - most) / most;
        excesses_.add({rank, place_of(actual), *bytes, expected->second, std::max(above, 0.0)});
      }
    }
    if (unseen.empty()) return;
    note(fmt::format("{} in step {} was not observed on rank {}", unseen.begin()->first,
                     step.number(), rank));
  }

  const CellEvidence& cell_;
  Claim claim_;
  Excesses excesses_;
  std::string reference_reason_;
  std::vector<std::string> reasons_;  ///< by rank
};

}  // namespace

std::optional<std::int64_t> bytes_of(const SnapshotTensor* tensor) {
  if (!tensor || !tensor->shape.empty() || tensor->dtype == DType::boolean) return std::nullopt;
  if (components(tensor->dtype) != 1 || unit_roundoff(tensor->dtype) > 0) return std::nullopt;
  const double value = component_value(tensor->dtype, tensor->bytes.data());
  if (value < 0) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::unique_ptr<ClaimFold> fold_memory_limit(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<MemoryLimitFold>(cell, claim);
}

}  // namespace lockstep
