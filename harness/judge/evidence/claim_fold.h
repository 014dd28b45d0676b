#pragma once

#include <memory>

#include "harness/judge/evidence/cell_evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What makes the result of one claim out of a cell's steps: each is seen once, in ascending order,
/// those of the reference alone, too, and nothing of it is kept but what the result needs.
class ClaimFold {
 public:
  virtual ~ClaimFold() = default;

  virtual void see(const CellStep& step) = 0;

  /// Fills verdict, reason, comparisons and findings of a result whose claim is set. After the last
  /// step; once.
  virtual void write(ClaimResult& result) = 0;
};

}  // namespace lockstep
