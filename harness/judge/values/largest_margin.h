#pragma once

#include <string>

#include "reports/record/execution.h"

namespace lockstep {

/// The largest difference so far, in units of its tolerance.
class LargestMargin {
 public:
  /// `relative`: a difference, `tolerance`: its limit, more than 0.
  void add(double relative, double tolerance);

  /// Makes a claim hold within tolerances. `from`: what they are those of.
  void write(ClaimResult& result, const std::string& from) const;

 private:
  double margin_ = 0;
  double tolerance_ = 0;
};

}  // namespace lockstep
