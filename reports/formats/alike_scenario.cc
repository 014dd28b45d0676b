#include "reports/formats/alike_scenario.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// Of parameters whose gradients no wrapper reduced.
std::optional<AlikeScenario> alike_of(NoReduction reason) {
  switch (reason) {
    case NoReduction::bypassed:
      return {{"loss-on-unwrapped-module", {"through-wrapper", "all-reduce-each"}}};
    case NoReduction::added_after:
      return {
          {"adapters-added-after-wrapper", {"wrap-after-adapters", "broadcast-new-parameters"}}};
    case NoReduction::unfrozen_after:
      return {{"unfrozen-after-wrap", {"wrapped-again", "averaged-by-hand"}}};
    case NoReduction::outside:
      return {{"ignored-module-never-synchronised", {"not-ignored", "averaged-by-hand"}}};
    case NoReduction::group_of_one:
      return {{"group-of-one-never-reduces", {"reduced-over-all", ""}}};
    case NoReduction::no_sync:
    case NoReduction::switched_off:
    case NoReduction::in_backward:
    case NoReduction::unwrapped:
    case NoReduction::written_after:
      return {};
  }
  return {};
}

/// Of collectives that ranks do not call alike.
std::optional<AlikeScenario> alike_of(MismatchFault fault) {
  switch (fault) {
    case MismatchFault::operation:
    case MismatchFault::size:
    case MismatchFault::dtype:
      return {
          {"collective-order-differs-other-shapes", {"sorted-by-name", "logged-in-every-step"}}};
    case MismatchFault::order:
    case MismatchFault::tensors:
      return {{"collective-order-differs-same-shapes", {"sorted-by-name", "flat-buffer"}}};
    case MismatchFault::count:
      return {{"uneven-batches-hang", {"join", "fewest-batches"}}};
    default:
      return {};
  }
}

/// Of samples, and of how gradients were reduced.
std::optional<AlikeScenario> alike_of(FindingKind kind) {
  if (kind == FindingKind::passes_left_out) {
    return {{"no-sync-off-by-one", {"last-reduced", "averaged-at-the-end"}}};
  }
  if (kind == FindingKind::divided_by_world_size) {
    return {{"averaged-twice", {"divided-by-ddp", "summed-by-hook"}}};
  }
  if (kind == FindingKind::parts_clipped_apart) {
    return {{"clip-by-local-shard-norm", {"norm-of-all", ""}}};
  }
  if (kind == FindingKind::same_samples) return {{"same-batch-on-every-rank", {"divided", ""}}};
  return {};
}

std::optional<AlikeScenario> alike_of_error(const std::string& error) {
  const auto found = std::ranges::find_if(kAlikeErrors, [&](const AlikeError& alike) {
    return error.find(alike.text) != std::string::npos;
  });
  if (found == kAlikeErrors.end()) return {};
  return found->scenario;
}

/// Of the first finding that has one.
std::optional<AlikeScenario> alike_of_findings(const JobRecord& job) {
  for (const ClaimResult& result : job.results) {
    for (const Finding& finding : result.findings) {
      const auto alike =
          finding.failure ? alike_of_error(finding.failure->error) : alike_of(finding.kind);
      if (alike) return alike;
    }
  }
  return {};
}

}  // namespace

std::optional<AlikeScenario> alike_scenario(const JobRecord& job) {
  if (verdict_of(job) != Verdict::violated) return {};
  for (const Unreduced& one : job.unreduced) {
    if (one.explains) return alike_of(one.reason);
  }
  if (const auto alike = alike_of_findings(job)) return alike;
  return job.mismatch ? alike_of(job.mismatch->fault) : std::nullopt;
}

std::string alike_in_words(const JobRecord& job) {
  const auto alike = alike_scenario(job);
  if (!alike) return "";
  const auto& [first, second] = alike->fixes;
  return fmt::format("alike in the catalogue: {}, mended by {}{}", alike->id, first,
                     second.empty() ? "" : fmt::format(" or {}", second));
}

}  // namespace lockstep
