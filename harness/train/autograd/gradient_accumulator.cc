#include "harness/train/autograd/gradient_accumulator.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace lockstep {

namespace {

std::vector<at::Tensor> trained(std::vector<at::Tensor> parameters) {
  std::erase_if(parameters, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

}  // namespace

GradientAccumulator::GradientAccumulator(std::vector<at::Tensor> parameters,
                                         const GradientAccumulatorOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor prior = std::exchange(parameter.mutable_grad(), at::Tensor());
    sums_.push_back(prior.defined() ? prior.to(options_.dtype)
                                    : at::zeros_like(parameter, options_.dtype));
  }
}

GradientAccumulator::~GradientAccumulator() { remove_hooks(); }

void GradientAccumulator::install_hooks(const TileTurn& turn) {
  if (options_.removes_hooks) remove_hooks();
  const double scale = options_.scales ? 1.0 / static_cast<double>(turn.asked) : 1.0;
  const std::int64_t tiles = options_.counts_pieces ? turn.pieces : turn.asked;
  const bool hands_over = turn.tile + 1 == tiles;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const unsigned place = parameters_[i].register_hook(
        [this, i, scale, hands_over](const at::Tensor& gradient) -> at::Tensor {
          return accumulate(i, gradient, scale, hands_over);
        });
    hooks_.push_back({parameters_[i], place});
  }
}

/// Returns the new gradient; undefined: the previous one.
at::Tensor GradientAccumulator::accumulate(std::size_t parameter, const at::Tensor& gradient,
                                           double scale, bool hands_over) {
  const at::NoGradGuard no_grad;
  sums_[parameter] += gradient.to(options_.dtype) * scale;
  if (!hands_over) return {};
  const at::Tensor sum = sums_[parameter].to(parameters_[parameter].scalar_type());
  at::Tensor& held = parameters_[parameter].mutable_grad();
  held = options_.hand_over == HandOver::returned ? at::Tensor() : sum;
  return options_.hand_over == HandOver::set ? at::Tensor() : sum;
}

void GradientAccumulator::remove_hooks() {
  for (const Hook& hook : hooks_) hook.parameter.remove_hook(hook.place);
  hooks_.clear();
}

void accumulate_by_hooks(TilingOptions& tiling, const GradientAccumulatorOptions& options,
                         HookedParameters parameters) {
  const auto accumulator = std::make_shared<std::unique_ptr<GradientAccumulator>>();
  tiling.before_tile = [accumulator, options,
                        parameters = std::move(parameters)](const TileTurn& turn) {
    if (turn.tile == 0) {
      *accumulator = std::make_unique<GradientAccumulator>(
          parameters ? trained(parameters()) : *turn.parameters, options);
    }
    (*accumulator)->install_hooks(turn);
  };
  tiling.after_tile = [accumulator](const TileTurn& turn) {
    if (turn.tile + 1 == turn.pieces) accumulator->reset();
  };
}

}  // namespace lockstep
