#pragma once

#include <functional>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/sharded/model_parts.h"

namespace lockstep {

/// What a rank does in a pipeline, for micro-batch `index` from 0.
struct StageHooks {
  std::function<at::Tensor(std::int64_t index)> input;  ///< of the first stage
  Module::Forward forward;                              ///< of this rank's stage
  /// Of the last stage: the loss (0-dim) of its output.
  std::function<at::Tensor(const at::Tensor& output, std::int64_t index)> loss;
  /// Of what the stage before sends, which is of `options`.
  std::function<std::vector<std::int64_t>(std::int64_t index)> shape;
  at::TensorOptions options;
};

/// Pipeline parallelism: stage i of a model is on rank i of a group.
///
/// The schedule is torch.distributed.pipelining's ScheduleGPipe with scale_grads=False: all forward
/// passes, then all backward passes, in order. A test compares it with Python's, bit for bit.
/// Without its inference of shapes, its overlap, and other outputs than one tensor.
class Pipeline : public ModelParts {
 public:
  /// As for ModelParts: `own` is this rank's stage, without what is on all ranks. Keeps a reference
  /// to `group`.
  Pipeline(Module& module, const std::vector<Module*>& own, const std::vector<Module*>& copied,
           ProcessGroup& group);

  bool is_first() const { return group_.rank() == 0; }
  bool is_last() const { return group_.rank() + 1 == group_.size(); }

  /// Runs the schedule for `micro_batches`. Gradients are added to those of earlier runs.
  void run(const StageHooks& hooks, std::int64_t micro_batches);

 private:
  struct Passed;
  Passed run_forward(const StageHooks& hooks, std::int64_t index);
  void run_backward(const Passed& passed);

  ProcessGroup& group_;
};

}  // namespace lockstep
