#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/value_place.h"

namespace lockstep {

/// How the values of a cell are wrong, beyond the findings of its claims. Empty where every claim
/// holds.
struct WrongValues {
  /// Gradients that the reference has and no rank ever had, in the reference's order.
  std::vector<std::string> never_trained;
  /// The first place where ranks hold different values of something that a violated claim is about.
  std::optional<ValuePlace> parting;
  /// Whether ranks were seen to hold whole values of all that violated claims are about.
  bool is_known_to_agree = false;
  std::optional<ValuePlace> first;  ///< the first value that is not the reference's
};

/// Sees a cell step by step, those of the reference alone, too.
class WrongValuesFold {
 public:
  /// The cell outlives this.
  explicit WrongValuesFold(const CellEvidence& cell);

  void see(const CellStep& step);

  /// After the last step. `results` are those of the cell.
  WrongValues result(const std::vector<ClaimResult>& results) const;

 private:
  /// What one rank observed of a gradient.
  struct SeenGradient {
    bool is_there = false;
    bool is_shard = false;     ///< the first time
    bool has_value = false;    ///< at any time
    bool is_expected = false;  ///< the reference has a value where the rank looked
  };

  /// How ranks stand to each other in what a claim is about.
  struct Standing {
    std::optional<ValuePlace> parting;  ///< the first place where they hold different values
    bool is_known = true;               ///< whether each was seen to hold whole values everywhere
  };

  void see_gradients(const CellStep& step);
  bool is_never_trained(const std::string& name) const;
  ValuePlace place_of_finding(const Finding& finding) const;

  const CellEvidence& cell_;
  std::vector<std::string> expected_;  ///< gradients of the reference, in its order
  std::set<std::string> is_expected_;
  std::map<std::string, std::vector<SeenGradient>> seen_;  ///< by name and rank
  std::vector<Standing> standings_;                        ///< one per claim
};

/// The first finding of violated claims of a predicate; of equal steps that of the first claim.
/// Null where there is none.
const Finding* first_finding(const std::vector<ClaimResult>& results, Predicate predicate);

/// Whether something is claimed, and all of it holds.
bool keeps_every_claim(const std::vector<ClaimResult>& results);

}  // namespace lockstep
