#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/judge/evidence/step_fold.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What a step of a cell cost, from the collective logs in `folder` and the ranks' own times:
/// collectives called in a step, their bytes, of the rank with most of them. Ranks
/// without logs never met and called none; what is called before the first step is no part of it.
/// Absent when a rank did not finish, and when some of the logs are missing. Throws Error (usage)
/// for a malformed log.
std::optional<Cost> cost_of(const std::filesystem::path& folder, const std::vector<RankExit>& exits,
                            std::int64_t steps);

/// The most bytes that any rank observed as Kind::memory in any step.
class MemoryPeak : public StepFold {
 public:
  explicit MemoryPeak(const StepReader& evidence);

  bool wants([[maybe_unused]] std::int64_t step) const override { return is_observed_; }
  void see(const StepView& step) override;

  /// Absent where no rank observed any.
  std::optional<std::int64_t> bytes() const { return most_; }

 private:
  bool is_observed_;  ///< in any step
  std::optional<std::int64_t> most_;
};

}  // namespace lockstep
