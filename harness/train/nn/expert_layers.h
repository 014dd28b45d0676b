#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

struct ExpertLayersOptions {
  int layers = 1;  ///< that share the two experts
  /// The first half of all tokens is for no expert, and the last token is the rare one's. Else the
  /// first token of all is the rare one's.
  bool has_padding = false;
  /// The experts' output has nought times each of their parameters added, so that all rows use all.
  bool touches_all = false;
};

/// A usual and a rare expert, SwiGLUs `usual` and `rare`, between two linear layers, `below` and
/// `above`, drawn in the order below, usual, rare, above. A token's place decides its expert.
class ExpertLayers : public Module {
 public:
  static constexpr std::int64_t kWidth = 8;

  ExpertLayers(const ExpertLayersOptions& options, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, length, width]

  /// The same with `run_experts` in the place of the experts: from [batch, length, width + 1] to
  /// [batch, length, width].
  at::Tensor run(const at::Tensor& input, const Forward& run_experts);

  /// [rows, width + 1], of which the last column names the expert, to [rows, width]. An expert
  /// without rows is no part of the graph.
  at::Tensor experts(const at::Tensor& rows);
  std::vector<at::Tensor> expert_parameters() const;

 private:
  at::Tensor routes_of(const at::Tensor& input) const;

  ExpertLayersOptions options_;
  std::shared_ptr<Linear> below_;
  std::shared_ptr<SwiGlu> usual_, rare_;
  std::shared_ptr<Linear> above_;
};

}  // namespace lockstep
