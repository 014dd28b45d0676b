#pragma once

#include <set>
#include <string>

#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// Whether gradients of a job explain that its parameters differ by rounding. Equal parameters and
/// equal gradients give equal updates. So if no gradient ever differed, ranks made another update,
/// as little as that may have changed.
class GradientsApart {
 public:
  /// `unshared`: names to leave out. It outlives this.
  explicit GradientsApart(const std::set<std::string>& unshared) : unshared_(unshared) {}

  /// Sees the gradients of a step, up to the first in which parameters differ. `differing`: the
  /// names of those.
  void see(const StepView& step, const std::set<std::string>& differing);

  /// Whether the gradients of all parameters that differ first were observed there, and no gradient
  /// differed up to then.
  bool is_ruled_out() const { return is_ruled_out_; }

 private:
  const std::set<std::string>& unshared_;
  bool is_decided_ = false;
  bool is_ruled_out_ = false;
};

}  // namespace lockstep
