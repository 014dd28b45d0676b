#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/step_pairs.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// The larger norms of all tensors together that are of one quantity; of optimizer states, moments
/// of one kind.
class NormsOfAll {
 public:
  explicit NormsOfAll(const std::vector<TensorPair>& pairs);

  double beside(const TensorPair& pair) const;

 private:
  static std::pair<Compared, std::string> key_of(const TensorPair& pair);

  std::map<std::pair<Compared, std::string>, std::pair<double, double>> squares_;
};

/// Root mean squares of the gradients of a step, for the smaller side.
class GradientScales {
 public:
  explicit GradientScales(const std::vector<TensorPair>& pairs);

  /// Of the other gradients of its module; without any, of all.
  double beside(const std::string& parameter) const;

 private:
  std::map<std::string, std::vector<std::pair<std::string, double>>> modules_;
  double largest_ = 0;
};

}  // namespace lockstep
