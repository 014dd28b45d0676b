#pragma once

#include <set>
#include <string>

#include "harness/judge/evidence/step_view.h"
#include "harness/judge/values/rounding_drift.h"

namespace lockstep {

/// Whether gradients of a job explain that its parameters differ by rounding. Equal parameters and
/// equal gradients give equal updates. So if no gradient ever differed, nor any parameter before
/// its step, ranks made another update, as little as that may have changed.
class GradientsApart {
 public:
  /// `unshared`: names to leave out. It outlives this.
  GradientsApart(const std::set<std::string>& unshared, int world_size)
      : unshared_(unshared), rounding_(world_size) {}

  /// Sees the gradients of a step, up to the first in which parameters differ. `differing`: the
  /// names of those.
  void see(const StepView& step, const std::set<std::string>& differing);

  /// Whether the gradients of all parameters that differ first were observed there, and no gradient
  /// differed up to then.
  bool is_ruled_out() const { return is_ruled_out_; }

  /// Whether gradients differ as those of replicas that each rank computes.
  bool are_rounding() const { return rounding_.is_established(false); }

 private:
  bool differ_before(const StepView& step) const;

  const std::set<std::string>& unshared_;
  RoundingDrift rounding_;
  bool have_differed_ = false;
  bool is_over_ = false;  ///< parameters differ
  bool is_ruled_out_ = false;
};

}  // namespace lockstep
