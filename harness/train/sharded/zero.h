#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// How a rank of stages 1 and 2 finds its pieces of the gradients.
///   exact                 as the partitions are laid out
///   offset_forgotten      the first piece of a partition is read from its parameter's start
///   only_where_it_begins  a parameter's mean is taken only by the rank of its first element; on
///                         others the rest stays their own gradient, divided by the world size
///   first_at_each_place   by a table of parameters' starts, in which an empty parameter hides the
///                         next one: the mean of that is not taken at its start
enum class PartitionBookkeeping {
  exact,
  offset_forgotten,
  only_where_it_begins,
  first_at_each_place
};

/// The defaults are DeepSpeed's.
struct ZeroOptions {
  /// Partitioned data: 1, the optimizer's state; 2, also gradients; 3, also parameters.
  int stage = 1;
  /// Elements of gradients that are reduced together; the rest is reduced at the end of backward.
  std::int64_t reduce_bucket_size = 500'000'000;
  PartitionBookkeeping bookkeeping = PartitionBookkeeping::exact;
};

/// Attributes of parameters (`parameter_attributes`), under DeepSpeed's names.
namespace zero_attribute {
inline constexpr const char* kIndexInGroup = "param_idx_in_group";  ///< in stages 1 and 2
inline constexpr const char* kId = "ds_id";                         ///< in stage 3
/// Set by code that runs several backwards of a parameter in one, and read by the parameter's hook.
/// While it is 0, the hook does nothing and the gradient accumulates in `.grad`.
inline constexpr const char* kGradientIsReady = "ds_grad_is_ready";
}  // namespace zero_attribute

/// DeepSpeed's ZeRO, stages 1 to 3, as far as collectives and autograd show its behaviour.
/// Gradients are means over the ranks.
///
/// Stages 1 and 2: the trainable parameters are flattened, concatenated, padded to a multiple of
/// twice the world size, and cut into equal partitions. Each rank steps its own copy of one, and
/// `finish_step` gathers all. Parameters stay whole; values written into them between steps are
/// lost with the next. Untrained parameters have empty parts.
///   1  whole gradients accumulate on the rank until a reducing backward has ended.
///   2  a hook of each parameter puts its gradient in a bucket, in every backward, whether it is
///      told to reduce or not. When the next does not fit, the bucket is reduced: ranks that have a
///      part keep the gradient, of which only their part is the mean, others drop it. Parts
///      accumulate over backwards until `zero_grad`. A parameter without a gradient gets zeros.
/// If autograd adds to a gradient after its bucket is reduced, it is reduced again, including the
/// first mean. DeepSpeed refuses a second reduction of a parameter in one backward ("has already
/// been reduced"), and a second entry in the same bucket; here both happen.
///
/// A gradient that is still not ready at the end of backward is dropped. The rank's own gradient
/// then counts as the mean of its part. Stage 3 leaves the gradient in `.grad`.
///
/// Stage 3: each parameter is flattened, padded and cut separately, including untrained ones. A
/// module's own parameters are gathered when it is called and when backward reaches its output, and
/// released afterwards, in forward and backward alike. A module that a checkpoint or each tile
/// calls again in backward is gathered each time. Calling `forward`, instead of the module,
/// bypasses this. Released parameters have their shape and no data (see FullyShard). Gradients go
/// through a bucket like in stage 2 and are reduce-scattered. In the first backward of a step the
/// result replaces the part's gradient, in later ones it is added. So a parameter that is reduced
/// twice in the first one keeps the second result, and one that a step does not use keeps the
/// previous step's gradient. DeepSpeed refuses two entries of a parameter in the same bucket; here
/// both reduce the current `.grad`.
///
/// Not supported: dtypes for computing, reducing and stepping other than the parameters', several
/// groups of parameters, offload, prefetches, persistent and reused parameters of stage 3, streams
/// (every collective completes before the next operation). Stages 1 and 2 accumulate the parts of
/// several reducing backwards, like DeepSpeed without its managed accumulation; with it, a step
/// comes between them.
///
/// Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
/// models", 2020; DeepSpeed 0.19 for the mechanism.
class Zero : public ShardedModel {
 public:
  /// Takes over `root` permanently, even after this object is gone. Ranks must have the same
  /// parameters; they are not compared. Does not communicate. Throws Error (internal) for an
  /// invalid stage, for parameters of several dtypes, and in stages 1 and 2 if none is trainable.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  Zero(Module& root, ProcessGroup& group, const ZeroOptions& options = {});

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  std::vector<NamedShard> shards() const override;
  void zero_grad() override;
  /// Stages 2 and 3 always reduce.
  void set_requires_gradient_sync(bool reduces) override;
  void finish_step() override;
  bool keeps_parameters_whole() const override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
