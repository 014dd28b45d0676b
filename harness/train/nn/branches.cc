#include "harness/train/nn/branches.h"

#include <ATen/TensorOperators.h>

namespace lockstep {

namespace {

constexpr std::int64_t kOutputs = 4;

}  // namespace

Branches::Branches(const BranchesOptions& options, const at::Generator& generator)
    : sums_outputs_(options.sums_outputs),
      trunk_(
          register_module("trunk", std::make_shared<Linear>(options.inputs, kOutputs, generator))),
      left_(register_module("left", std::make_shared<Linear>(kOutputs, kOutputs, generator))) {
  if (options.differs == "other-counts") return;
  const std::int64_t width = options.differs == "other-sizes" ? 2 * kOutputs : kOutputs;
  right_ = register_module("right", std::make_shared<Linear>(kOutputs, width, generator));
}

at::Tensor Branches::forward(const at::Tensor& input) {
  const at::Tensor hidden = trunk_->forward(input);
  if (owner == 0) return left_->forward(hidden);
  if (!right_) return hidden;
  const at::Tensor output = right_->forward(hidden);
  const at::Tensor parts = output.reshape({-1, kOutputs, output.size(1) / kOutputs});
  return sums_outputs_ ? parts.sum(2) : parts.mean(2);
}

}  // namespace lockstep
