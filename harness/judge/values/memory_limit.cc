#include "harness/judge/values/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/settle.h"
#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

/// What a step needed, by step and name.
using Needs = std::map<std::pair<std::int64_t, std::string>, std::int64_t>;

/// One number of one rank beside the reference's.
struct Excess {
  int rank = 0;
  const Observation* actual = nullptr;
  std::int64_t bytes = 0;
  std::int64_t reference = 0;  ///< not 0
  double margin = 0;           ///< in tenths of the reference
};

std::string place_in_words(const Observation& observation, const std::string& holder) {
  return fmt::format("{} in step {} {}", observation.name, observation.step, holder);
}

/// The reference's numbers; of several micro-batches the largest one. Leaves `reason` where one
/// cannot be read, or is 0: that has no multiples, and nothing was measured.
Needs needs_of(const Evidence& reference, const Claim& claim, std::string& reason) {
  Needs needs;
  for (const Observation& observation : reference.observations(0)) {
    if (!concerns(claim, observation) || !observation.replica_group.empty()) continue;
    const auto bytes = bytes_of(reference.kept(0, observation));
    if (!bytes) {
      reason = place_in_words(observation, "is no number of bytes in the reference");
      continue;
    }
    std::int64_t& most = needs[{observation.step, observation.name}];
    most = std::max(most, *bytes);
  }
  for (const auto& [place, bytes] : needs) {
    if (bytes > 0 || !reason.empty()) continue;
    reason = fmt::format("{} in step {} is 0 bytes in the reference, of which there is no multiple",
                         place.second, place.first);
  }
  return needs;
}

/// Everything that was held against the reference, boiled down.
class Excesses {
 public:
  void add(const Excess& excess, ClaimResult& result) {
    ++result.comparisons;
    if (!result.margin || excess.margin > *result.margin) result.margin = excess.margin;
    result.verdict = merge(result.verdict, verdict_of(excess));
    if (verdict_of(excess) != Verdict::violated) return;
    ++places_;
    last_step_ = std::max(last_step_, excess.actual->step);
    if (!first_ || precedes(excess, *first_)) first_ = excess;
  }

  void write(ClaimResult& result) const {
    if (!first_) return;
    Finding finding;
    finding.claim = result.claim;
    finding.step = first_->actual->step;
    finding.tensor = first_->actual->name;
    finding.groups = {{first_->rank}};
    finding.worst_difference = static_cast<double>(first_->bytes - first_->reference);
    finding.ratio = static_cast<double>(first_->bytes) / static_cast<double>(first_->reference);
    finding.places = places_;
    finding.last_step = last_step_;
    finding.sentence = fmt::format(
        "memory exceeds the reference's: first in step {}, {} on rank {}: {} bytes where the "
        "reference needs {}: {:.3g} times as many.",
        finding.step, finding.tensor, first_->rank, first_->bytes, first_->reference,
        *finding.ratio);
    result.findings.push_back(std::move(finding));
  }

 private:
  static Verdict verdict_of(const Excess& excess) {
    if (excess.margin <= 1) return Verdict::holds;
    return excess.margin <= kClearFactor ? Verdict::undecided : Verdict::violated;
  }

  static bool precedes(const Excess& a, const Excess& b) {
    return std::tuple(a.actual->step, a.actual->seq, a.rank) <
           std::tuple(b.actual->step, b.actual->seq, b.rank);
  }

  std::int64_t places_ = 0;
  std::int64_t last_step_ = 0;
  std::optional<Excess> first_;
};

/// Holds the numbers of a rank against the reference's. Returns why not all could be; empty when
/// they could.
std::string compare_with_limit(const CellEvidence& cell, int rank, const Needs& needs,
                               Excesses& excesses, ClaimResult& result) {
  std::string reason;
  Needs unseen = needs;
  for (const Observation& actual : cell.evidence->observations(rank)) {
    if (!concerns(result.claim, actual)) continue;
    unseen.erase({actual.step, actual.name});
    const auto expected = needs.find({actual.step, actual.name});
    const auto bytes = bytes_of(cell.evidence->kept(rank, actual));
    if (expected == needs.end()) {
      reason = missing_in_reference(cell, actual);
    } else if (!bytes) {
      reason = place_in_words(actual, fmt::format("is no number of bytes on rank {}", rank));
    } else if (expected->second > 0) {
      const auto most = static_cast<double>(expected->second);
      const double above = 10 * (static_cast<double>(*bytes) - most) / most;
      excesses.add({rank, &actual, *bytes, expected->second, std::max(above, 0.0)}, result);
    }
  }
  if (!reason.empty() || unseen.empty()) return reason;
  const auto& [step, name] = unseen.begin()->first;
  return fmt::format("{} in step {} was not observed on rank {}", name, step, rank);
}

}  // namespace

std::optional<std::int64_t> bytes_of(const SnapshotTensor* tensor) {
  if (!tensor || !tensor->shape.empty() || tensor->dtype == DType::boolean) return std::nullopt;
  if (components(tensor->dtype) != 1 || unit_roundoff(tensor->dtype) > 0) return std::nullopt;
  const double value = component_value(tensor->dtype, tensor->bytes.data());
  if (value < 0) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

void judge_memory_limit(const CellEvidence& cell, ClaimResult& result) {
  if (!cell.reference) {
    result.reason = "not triggered: there is no reference";
    return;
  }
  const Needs needs = needs_of(*cell.reference, result.claim, result.reason);
  Excesses excesses;
  result.verdict = Verdict::holds;
  for (int rank = 0; rank < cell.evidence->processes(); ++rank) {
    const std::string reason = compare_with_limit(cell, rank, needs, excesses, result);
    if (result.reason.empty()) result.reason = reason;
  }
  if (result.comparisons == 0) {
    result.verdict = Verdict::undecided;
    if (result.reason.empty()) result.reason = "not triggered: nothing was compared";
    return;
  }
  result.tolerance = 0.1;
  result.tolerance_from = "a tenth of the reference";
  excesses.write(result);
  settle(result, fmt::format("up to {} times the reference's memory, more than the 1.1 that hold "
                             "and not more than the 2 beyond which it is clear",
                             number(1 + result.margin.value_or(0) / 10)));
}

}  // namespace lockstep
