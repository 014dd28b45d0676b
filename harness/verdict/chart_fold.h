#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/verdict/agreement_map.h"
#include "reports/record/charts.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/run_record.h"
#include "reports/record/thinned_steps.h"

namespace lockstep {

/// Collects the charts of an execution in the pass of its claims. Memory does not grow with the
/// steps. In a job, steps in which ranks agree by their indices are read of one rank only.
class ChartFold : public StepFold {
 public:
  /// `cell` must outlive this, with its evidence. `claims`: of the execution.
  ChartFold(const CellEvidence& cell, std::vector<Claim> claims);

  bool wants(std::int64_t step) const override { return !is_agreed(step); }
  void see(const StepView& step) override;

  /// Call once, after the last step. `mismatch`: of the execution.
  Charts take(const std::optional<CollectiveMismatch>& mismatch);

 private:
  struct Row {
    std::int64_t step = 0;
    std::int64_t differing = 0;
    std::vector<double> norms;  ///< by rank
    double drift = 0;
    double estimate = 0;
  };

  bool is_agreed(std::int64_t step) const;
  void see_agreed_before(std::int64_t step);
  Row row_of_agreed(std::int64_t number) const;
  Row row_of(const StepView& step, std::int64_t differing) const;
  void add(Row row);
  StepSeries series();

  const CellEvidence& cell_;
  std::set<std::string> names_;  ///< of a job
  AgreementMapFold agreement_;
  ThinnedSteps<Row> rows_;
  std::size_t next_ = 0;  ///< of the evidence's steps
};

}  // namespace lockstep
