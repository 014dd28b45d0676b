#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/value_place.h"

namespace lockstep {

/// Details of a cell's wrong values, beyond the findings of its claims. Empty if every claim holds.
struct WrongValues {
  /// Gradients of the reference that no rank ever had, in the reference's order.
  std::vector<std::string> never_trained;
  /// The first position where ranks hold different values of a tensor of a violated claim.
  std::optional<ValuePlace> parting;
  /// Whether ranks were seen to hold whole values of all tensors of violated claims.
  bool is_known_to_agree = false;
  std::optional<ValuePlace> first;  ///< the first value that differs from the reference
};

/// Sees a cell step by step, including steps of the reference alone.
class WrongValuesFold {
 public:
  /// The cell outlives this.
  explicit WrongValuesFold(const CellEvidence& cell);

  void see(const CellStep& step);

  /// Call after the last step. `results` are those of the cell.
  WrongValues result(const std::vector<ClaimResult>& results) const;

 private:
  /// Observations of a gradient on one rank.
  struct SeenGradient {
    bool is_there = false;
    bool is_shard = false;     ///< in the first one
    bool has_value = false;    ///< in any of them
    bool is_expected = false;  ///< the reference has a value in an observed step

    /// `is_value_there`: the reference has a value for this observation.
    void see(const Observation& observation, bool is_value_there);
  };

  /// Agreement of the ranks on the tensors of a claim.
  struct Standing {
    std::optional<ValuePlace> parting;  ///< the first position with different values
    bool is_known = true;               ///< every rank was seen to hold whole values everywhere
  };

  static void see_claim(const StepView& step, const Claim& claim, Standing& standing);
  void see_gradients(const CellStep& step);
  bool is_never_trained(const std::string& name) const;
  ValuePlace place_of_finding(const Finding& finding) const;

  const CellEvidence& cell_;
  std::vector<std::string> expected_;  ///< gradients of the reference, in its order
  std::set<std::string> is_expected_;
  std::map<std::string, std::vector<SeenGradient>> seen_;  ///< by name and rank
  std::vector<Standing> standings_;                        ///< one per claim
};

/// The first finding of violated claims of a predicate; in the same step, that of the first claim.
/// Null if there is none.
const Finding* first_finding(const std::vector<ClaimResult>& results, Predicate predicate);

/// Whether there are claims, and all hold.
bool keeps_every_claim(const std::vector<ClaimResult>& results);

}  // namespace lockstep
