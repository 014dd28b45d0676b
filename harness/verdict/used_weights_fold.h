#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/judge/values/used_weights.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What a job says of the weights of its forward passes.
struct JudgedWeights {
  ClaimResult result;
  Symptom symptom;   ///< of a job whose other claims hold, if it is violated
  std::string note;  ///< how many were compared
};

/// Judges that forward passes of a job compute with the weights that its optimizer holds, where an
/// engine gathers these and `watch --modules` observed both. The bits have to be the same, so one
/// step is enough.
class UsedWeightsFold : public StepFold {
 public:
  explicit UsedWeightsFold(const CellEvidence& cell);

  bool wants(std::int64_t step) const override;
  void see(const StepView& step) override;

  /// Call once, after the last step. Empty: nothing was compared.
  std::optional<JudgedWeights> judged() const;

 private:
  /// A weight with which a rank computed although its optimizer held another one.
  struct Course {
    std::int64_t first = 0, last = 0, steps = 0;
    std::set<int> ranks;
    std::int64_t used_in =
        0;  ///< the first of these steps in which it is one that was held before,
    std::int64_t held_in = 0;  ///< in this step
  };

  void note(std::int64_t step, const std::string& name, const UsedWeight& weight);
  Finding finding(const Course* stale) const;
  const Course* first_stale() const;

  bool has_rows_ = false;
  std::map<std::int64_t, std::size_t> compared_;  ///< weights, by step
  std::map<std::string, Course> others_;          ///< by name
  /// What ranks held in the last step in which a weight was observed.
  std::map<std::string, std::pair<std::int64_t, std::map<int, Digest>>> held_;
};

}  // namespace lockstep
