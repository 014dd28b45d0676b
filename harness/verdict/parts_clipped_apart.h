#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_fold.h"
#include "harness/record/observation.h"
#include "harness/verdict/job_fault.h"

namespace lockstep {

/// Finds that each rank of a job clipped its parts of the gradients by the norm of these parts
/// instead of that of the whole: they have another factor on each rank, and nothing that ranks hold
/// in common differs.
///
/// Whoever clips by its own norm has, in every step that is clipped, the same norm, which is its
/// largest. The parts of gradients that are clipped by the norm of the whole, or not at all, have
/// another norm in each step.
class PartsClippedApart : public StepFold {
 public:
  explicit PartsClippedApart(const CellEvidence& cell);

  bool wants(std::int64_t step) const override { return steps_.contains(step); }
  void see(const StepView& step) override;

  /// Call once, after the last step. Empty: none is found.
  std::optional<JobFault> fault() const;

 private:
  /// Sums of the least and of the most elements of every eighth row. In another direction they are
  /// others.
  using Extremes = std::array<double, 16>;

  /// All gradients of a rank in a step.
  struct Own {
    double norm = 0;
    double whole = 0;  ///< the norm of those of all ranks
    Extremes extremes{};
    bool are_alike = false;  ///< all elements of each have the same size, or there is none
  };
  using OwnOfRanks = std::map<int, Own>;
  using Squares = std::map<std::pair<std::string, Shape>, double>;  ///< by name and offset

  /// Of the rows of a rank, whose squares are added. Empty: the norm of one is not known.
  static std::optional<Own> own_of(std::span<const Observation> rows, Squares& squares);

  /// The largest norm of any rank, and the steps in which a rank has it.
  struct Clipped {
    double limit = 0;
    std::map<int, std::vector<std::int64_t>> steps = {};  ///< by rank
  };
  Clipped clipped() const;
  bool is_of_part(int rank, const std::vector<std::int64_t>& steps) const;
  std::size_t directions(int rank, const std::vector<std::int64_t>& steps) const;

  std::set<std::int64_t> steps_;  ///< to look at
  std::set<std::string> parts_;   ///< names of the gradients that ranks divide
  std::map<std::int64_t, OwnOfRanks> seen_;
};

}  // namespace lockstep
