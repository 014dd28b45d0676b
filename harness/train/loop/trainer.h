#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// One rank's part of a data-parallel training with plain SGD, in the calls that a trainer is made
/// of: for scenarios whose fault lies between them. In the reference it reduces nothing.
class Trainer {
 public:
  /// `ddp`: how DDP wraps `model`; absent: `backward` averages each gradient by an all-reduce. The
  /// cell's axis `wrapper`, "ddp" or "by-hand", has the last word where there is one. Keeps
  /// references to both.
  Trainer(Rank& rank, Module& model, std::optional<DdpOptions> ddp = DdpOptions());

  at::Tensor output(const at::Tensor& input);  ///< of the model, through DDP where there is one
  /// Leaves the mean over the ranks in the gradients.
  void backward(const at::Tensor& loss, CallSite site = CallSite::here());

  /// Observes gradients at `pre_step`, steps unless told not to, observes parameters at
  /// `post_step`. `after_step` is called in between.
  void finish_step(bool steps = true, const std::function<void()>& after_step = {});

  DistributedDataParallel* ddp() { return ddp_ ? &*ddp_ : nullptr; }

 private:
  Rank& rank_;
  Module& model_;
  Sgd optimizer_;
  std::optional<DistributedDataParallel> ddp_;
};

}  // namespace lockstep
