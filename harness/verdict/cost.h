#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/judge/evidence/step_fold.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Cost of a step of a cell, from the collective logs in `folder` and the ranks' own times. It
/// counts collectives called in a step, and their bytes, on the rank with the most. A rank without
/// a log never completed the rendezvous and called none. Calls before the first step are excluded.
/// Absent if a rank did not finish or some of the logs are missing. Throws Error (usage) for a
/// malformed log.
std::optional<Cost> cost_of(const std::filesystem::path& folder, const std::vector<RankExit>& exits,
                            std::int64_t steps);

/// The largest Kind::memory value in bytes of any rank and step.
class MemoryPeak : public StepFold {
 public:
  explicit MemoryPeak(const StepReader& evidence);

  bool wants([[maybe_unused]] std::int64_t step) const override { return is_observed_; }
  void see(const StepView& step) override;

  /// Absent if no rank observed any.
  std::optional<std::int64_t> bytes() const { return most_; }

 private:
  bool is_observed_;  ///< in any step
  std::optional<std::int64_t> most_;
};

}  // namespace lockstep
