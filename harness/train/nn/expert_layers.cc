#include "harness/train/nn/expert_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t kExpertHidden = 16;

}  // namespace

ExpertLayers::ExpertLayers(const ExpertLayersOptions& options, const at::Generator& generator)
    : options_(options) {
  const auto layer = [&] { return std::make_shared<Linear>(kWidth, kWidth, generator); };
  const auto expert = [&] { return std::make_shared<SwiGlu>(kWidth, kExpertHidden, generator); };
  below_ = register_module("below", layer());
  usual_ = register_module("usual", expert());
  rare_ = register_module("rare", expert());
  above_ = register_module("above", layer());
}

at::Tensor ExpertLayers::forward(const at::Tensor& input) {
  return run(input, [this](const at::Tensor& routed) {
    return experts(routed.flatten(0, 1)).view({routed.size(0), routed.size(1), kWidth});
  });
}

at::Tensor ExpertLayers::run(const at::Tensor& input, const Forward& run_experts) {
  at::Tensor hidden = below_->forward(input);
  const at::Tensor route = routes_of(input);
  for (int layer = 0; layer < options_.layers; ++layer) {
    hidden = hidden + run_experts(at::cat({hidden, route}, -1));
  }
  return above_->forward(hidden);
}

at::Tensor ExpertLayers::experts(const at::Tensor& rows) {
  const at::Tensor values = rows.narrow(-1, 0, kWidth);
  const at::Tensor route = rows.select(-1, kWidth).detach();
  at::Tensor output = at::zeros_like(values);
  for (const auto& [expert, is_mine] :
       {std::pair(usual_, route == 0), std::pair(rare_, route > 0)}) {
    const at::Tensor mine = is_mine.nonzero().squeeze(-1);
    if (mine.numel() == 0) continue;
    output = output.index_add(0, mine, expert->forward(values.index_select(0, mine)));
  }
  if (!options_.touches_all) return output;
  for (const at::Tensor& parameter : expert_parameters()) output = output + (parameter * 0).sum();
  return output;
}

std::vector<at::Tensor> ExpertLayers::expert_parameters() const {
  std::vector<at::Tensor> parameters = usual_->parameters();
  for (const at::Tensor& parameter : rare_->parameters()) parameters.push_back(parameter);
  return parameters;
}

/// [batch, length, 1]: 1 for the rare expert, -1 for none.
at::Tensor ExpertLayers::routes_of(const at::Tensor& input) const {
  const at::Tensor route = at::zeros({input.size(0), input.size(1), 1}, input.options());
  const at::Tensor rows = route.view({-1});
  if (options_.has_padding) rows.narrow(0, 0, (rows.numel() + 1) / 2).fill_(-1);
  rows[options_.has_padding ? -1 : 0] = 1;
  return route;
}

}  // namespace lockstep
