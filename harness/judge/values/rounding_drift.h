#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/values/distance.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/largest_margin.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Whether the differences between the ranks of a job are those of replicas that each rank computes
/// for itself instead of receiving them: last bits, in most tensors from the first step on, that
/// grow slowly and have no direction.
///
/// The bound in the n-th step since the first difference is n times the rounding of a sum over the
/// ranks (`rounding_tolerance`) times `kPerturbationFactor`, and at most 1e-3 or two unit
/// roundoffs, whichever is larger. A single tensor that differs is no rounding, since a damaged bit
/// may be as small.
///
/// That is a state of the job. In it, a tensor that is further apart is beyond rounding. If its
/// norm is below the rounding of its module, two unit roundoffs of the largest tensor there, it may
/// be 0 but for rounding: then nothing is known of it.
class RoundingDrift {
 public:
  explicit RoundingDrift(int world_size) : world_size_(world_size) {}

  /// Adds a tensor whose holders differ. `values`: one per group of equal ranks.
  void add(const StepView& step, const std::vector<Holder>& values);

  /// Ends a step in which tensors differ. `compared`: all tensors that were compared in it.
  void end_step(std::int64_t step, const std::vector<const HeldTensor*>& compared);

  /// Whether ranks compute replicas. `is_known`: what the tensors follow from is apart by rounding,
  /// so few of them may differ first: weights of 16 bits move by whole units in the last place.
  bool is_established(bool is_known) const;

  /// Whether a tensor is further apart than rounding explains.
  bool is_beyond(const std::string& name) const { return beyond_.contains(name); }
  bool has_beyond() const { return !beyond_.empty(); }

  /// "2.bias (0.0004 of its module's norm) differs by 1.4 of its own norm: ..."; empty: no tensor
  /// is that small.
  const std::string& open_in_words() const { return open_; }

  /// Fills verdict, margin and tolerance of a claim that holds within rounding.
  void write(ClaimResult& result) const;

 private:
  /// A tensor on two ranks in the current step.
  struct Pair {
    std::string name;
    int rank = 0;         ///< the second one
    double absolute = 0;  ///< L2 of the difference
    double norm = 0;      ///< the larger one
    double roundoff = 0;
    bool has_direction = false;  ///< the second is a multiple of the first, as far as one can tell
    bool is_large = false;       ///< enough elements to tell
  };

  double bound_at(std::int64_t step, double unit_roundoff) const;
  void judge(const Pair& pair, double bound, double scale, double floor);

  int world_size_;
  std::int64_t first_ = 0;                 ///< step; 0: nothing differs
  std::int64_t compared_ = 0;              ///< tensors in that step
  std::int64_t rounded_ = 0;               ///< of these, apart by rounding
  std::vector<Pair> pairs_;                ///< of the current step
  std::map<std::string, double> largest_;  ///< norm of each tensor that differed, up to now
  std::set<std::string> beyond_;           ///< names
  bool is_directed_ = false;               ///< most of a rank's tensors differ along themselves
  std::string open_;                       ///< the first tensor that is too small
  LargestMargin largest_apart_;
};

}  // namespace lockstep
