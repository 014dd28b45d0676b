#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "harness/train/nn/module.h"

namespace lockstep {

struct BranchesOptions {
  std::int64_t inputs = 4;
  /// How `right` differs from `left`:
  ///   same-shapes    not at all
  ///   other-sizes    it has 8 outputs, each two of which make one of the model
  ///   other-counts   it is not there: the others end after `trunk`
  std::string differs = "same-shapes";
  bool sums_outputs = false;  ///< two outputs make one by their sum; else by their mean
};

/// A layer that all ranks use, `trunk`, and after it a branch that depends on the rank: rank 0 uses
/// `left`, the others use `right`. The backward of a rank leaves the other branch without
/// gradients.
class Branches : public Module {
 public:
  Branches(const BranchesOptions& options, const at::Generator& generator);

  at::Tensor forward(const at::Tensor& input) override;  ///< [rows, inputs] to [rows, 4]

  int owner = 0;  ///< the rank whose data are computed

 private:
  bool sums_outputs_;
  std::shared_ptr<Linear> trunk_, left_, right_;
};

}  // namespace lockstep
