#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/judge/values/distance.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Whether the differences between the ranks of a job are those of replicas that each rank computes
/// for itself instead of receiving them: last bits, in most tensors from the first step on, that
/// grow slowly and have no direction.
///
/// The bound in the n-th step since the first difference is n times the rounding of a sum over the
/// ranks (`rounding_tolerance`) times `kPerturbationFactor`, and at most 1e-3 or two unit
/// roundoffs, whichever is larger. A tensor that is itself below the bound, relative to all
/// tensors, is noise. A single tensor that differs is no rounding, since a damaged bit may be as
/// small.
class RoundingDrift {
 public:
  explicit RoundingDrift(int world_size) : world_size_(world_size) {}

  /// Adds a tensor whose holders differ. `values`: one per group of equal ranks.
  void add(const StepView& step, const std::vector<Holder>& values);

  /// Ends a step. `compared`: the number of tensors that were compared in it; `norm`: L2 of all of
  /// them together.
  void end_step(std::int64_t step, std::int64_t compared, double norm);

  /// Whether all differences so far are rounding.
  bool is_all() const;

  /// Fills verdict, margin and tolerance of a claim that holds within rounding.
  void write(ClaimResult& result) const;

 private:
  /// A tensor on two ranks in the current step.
  struct Pair {
    int rank = 0;  ///< the second one
    double relative = 0;
    double norm = 0;  ///< the larger one
    double roundoff = 0;
    bool has_direction = false;  ///< the second is a multiple of the first, as far as one can tell
    bool is_large = false;       ///< enough elements to tell
  };

  double bound_at(std::int64_t step, double unit_roundoff) const;

  int world_size_;
  std::int64_t first_ = 0;      ///< step; 0: nothing differs
  std::int64_t differing_ = 0;  ///< tensors in the first step
  std::int64_t compared_ = 0;   ///< likewise
  std::vector<Pair> pairs_;     ///< of the current step
  bool exceeds_ = false;        ///< a difference is larger, has a direction, or is unknown
  double margin_ = 0;
  double tolerance_ = 0;
};

}  // namespace lockstep
