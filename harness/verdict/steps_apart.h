#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/step_view.h"
#include "harness/record/observation.h"
#include "reports/record/claim.h"

namespace lockstep {

struct HeldTensor;

/// In which steps ranks differ in a tensor.
struct StepsApart {
  std::int64_t first = 0;  ///< step
  std::int64_t last = 0;
  std::int64_t differing = 0;  ///< steps
  std::int64_t compared = 0;
  std::int64_t last_compared = 0;        ///< step
  std::vector<std::vector<int>> groups;  ///< in the first one

  /// Alike to a reader.
  auto operator<=>(const StepsApart&) const = default;
};

/// The tensors of a claim over all steps, as far as ranks hold copies.
class StepsApartByName {
 public:
  explicit StepsApartByName(const Claim& claim) : claim_(claim) {}

  const Claim& claim() const { return claim_; }

  /// Steps ascend.
  void see(const StepView& step);

  /// Leaves out generators that nothing draws from: their states say nothing. After all steps.
  void leave_out_idle();

  const std::map<std::string, StepsApart>& by_name() const { return by_name_; }
  std::vector<std::string> compared() const;  ///< names

  /// The names of those that differ, by their course.
  std::map<StepsApart, std::vector<std::string>> differing() const;

  std::int64_t last() const { return last_; }  ///< step

 private:
  void add(std::int64_t step, const HeldTensor& tensor);

  Claim claim_;
  std::map<std::string, StepsApart> by_name_;             ///< by name
  std::map<std::pair<std::string, int>, Digest> values_;  ///< the first, by name and rank
  std::set<std::string> moving_;                          ///< names of values that change
  std::int64_t last_ = 0;
};

}  // namespace lockstep
