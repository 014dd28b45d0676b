#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Computes the result of one claim from the steps of a cell. It sees each step once, in ascending
/// order, including steps of the reference alone. It stores only data that the result needs.
class ClaimFold {
 public:
  virtual ~ClaimFold() = default;

  virtual void see(const CellStep& step) = 0;

  /// Whether it needs the values even of a step that `is_told_by_indices`.
  virtual bool needs_values() const { return true; }

  /// Whether `see_alike` may replace `see` for a step that equals `like`.
  virtual bool knows([[maybe_unused]] std::int64_t like) const { return false; }

  /// Sees a step without reading it. Each rank observed the same tensors as in the step `like`,
  /// which was seen. All ranks of each replica group hold the same bits. Requires: `knows(like)`.
  virtual void see_alike([[maybe_unused]] std::int64_t step, [[maybe_unused]] std::int64_t like) {}

  /// Fills verdict, reason, comparisons and findings of a result whose claim is set. Call once,
  /// after the last step.
  virtual void write(ClaimResult& result) = 0;

  /// The last steps of tensors that no rank observed until the end, by name. Call after `write`.
  virtual std::map<std::string, std::int64_t> ended() const { return {}; }
};

}  // namespace lockstep
