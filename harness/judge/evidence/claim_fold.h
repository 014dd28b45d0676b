#pragma once

#include <cstdint>

#include "harness/judge/evidence/cell_evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What makes the result of one claim out of a cell's steps: each is seen once, in ascending order,
/// those of the reference alone, too, and nothing of it is kept but what the result needs.
class ClaimFold {
 public:
  virtual ~ClaimFold() = default;

  virtual void see(const CellStep& step) = 0;

  /// Whether `see_alike` may stand for `see` where a step is like `like`.
  virtual bool knows([[maybe_unused]] std::int64_t like) const { return false; }

  /// Sees a step in which each rank observed the tensors that it did in the step `like`, which was
  /// seen, and all ranks of each replica group hold the same bits. Requires: it knows `like`.
  virtual void see_alike([[maybe_unused]] std::int64_t step, [[maybe_unused]] std::int64_t like) {}

  /// Fills verdict, reason, comparisons and findings of a result whose claim is set. After the last
  /// step; once.
  virtual void write(ClaimResult& result) = 0;
};

}  // namespace lockstep
