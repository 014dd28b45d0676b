#pragma once

#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/sharded/unreduced_model.h"

namespace lockstep {

/// A parameter, by its name in the model, and the dimension along which it is cut.
struct TensorSplit {
  std::string name;
  std::int64_t dim = 0;
};

/// Tensor parallelism: each rank keeps one of equal parts of some parameters, in rank order, and
/// all others whole. The module computes with the parts from then on, so its forward is written for
/// them, with the collectives that they need (harness/train/autograd/collectives.h). Gradients of
/// whole parameters are the rank's own.
///
/// Megatron's layers in small: without its fused kernels, its overlap, and its initialisation,
/// which draws each part.
class TensorParallel : public UnreducedModel {
 public:
  /// The parameters of `module` have no gradients yet, and their dimensions are multiples of the
  /// ranks. Throws Error (internal) for a name that is none. Keeps a reference to `module`.
  TensorParallel(Module& module, const std::vector<TensorSplit>& splits, const ProcessGroup& group);

  /// Those that every rank holds whole, in order, if they require a gradient.
  std::vector<at::Tensor> whole_parameters() const;
};

}  // namespace lockstep
