#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_fold.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Finds out after which step of the training the parameters were that ranks have which train
/// nothing, such as those that generate samples: they are the same bits as those of the others
/// then.
class BystanderCopies : public StepFold {
 public:
  explicit BystanderCopies(const JobRecord& job);

  bool wants(std::int64_t step) const override;
  void see(const StepView& step) override;

  /// A sentence for all ranks that are alike: "rank 2 has no optimizer, and is not compared: its 4
  /// parameters are those of the others after step 3, not after step 5". None if no rank trains.
  std::vector<std::string> notes() const;

 private:
  /// The last step after which the training had a value; 0: before its first one.
  using StepsByName = std::map<std::string, std::int64_t>;

  void see(const StepView& step, Phase phase, std::int64_t after);

  /// Without parameters that the training does not change.
  StepsByName trained_of(const StepsByName& after) const;

  const JobRecord& job_;
  std::set<std::string> trained_;   ///< names of parameters that optimizers step
  std::vector<StepsByName> after_;  ///< by place in `JobRecord::bystanders`
  std::int64_t last_ = 0;           ///< step that was seen
};

}  // namespace lockstep
