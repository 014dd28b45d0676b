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
///   exact                 as the partitions lie
///   offset_forgotten      what a partition begins with is read from its parameter's start
///   only_where_it_begins  a parameter's mean is taken by the rank where it begins; on others its
///                         rest stays their own gradient, divided by the world size
///   first_at_each_place   by a table of where parameters begin, in which an empty one hides the
///                         one behind it: the mean of that is not taken where it begins
enum class PartitionBookkeeping {
  exact,
  offset_forgotten,
  only_where_it_begins,
  first_at_each_place
};

/// The defaults are DeepSpeed's.
struct ZeroOptions {
  /// What is partitioned: 1, the optimizer's state; 2, gradients as well; 3, and parameters.
  int stage = 1;
  /// Elements of gradients that are reduced together; the rest is when backward ends.
  std::int64_t reduce_bucket_size = 500'000'000;
  PartitionBookkeeping bookkeeping = PartitionBookkeeping::exact;
};

/// What is noted on parameters (`parameter_attributes`), under DeepSpeed's names.
namespace zero_attribute {
inline constexpr const char* kIndexInGroup = "param_idx_in_group";  ///< in stages 1 and 2
inline constexpr const char* kId = "ds_id";                         ///< in stage 3
/// Set by whoever runs several backwards of a parameter in one, and read by its hook: while it is
/// 0, the hook does nothing and the gradient stays where autograd adds up.
inline constexpr const char* kGradientIsReady = "ds_grad_is_ready";
}  // namespace zero_attribute

/// DeepSpeed's ZeRO, stages 1 to 3, as far as its laws are seen from the collectives and from
/// autograd. Gradients are means over the ranks.
///
/// Stages 1 and 2: the trainable parameters are flattened one behind the other, padded to a
/// multiple of twice the world size, and cut in equal partitions; each rank steps its own copy of
/// one, and `finish_step` gathers all. Parameters stay whole; what is written into them between
/// steps is lost with the next. Parameters that are not trained have empty parts.
///   1  whole gradients add up on the rank until a backward that reduces has ended.
///   2  a hook of each parameter puts its gradient in a bucket, in every backward, whether it is
///      told to reduce or not. When the next does not fit, the bucket is reduced: ranks that have a
///      part keep the gradient, of which only their part is the mean, others drop it. Parts add up
///      over backwards until `zero_grad`. A parameter without a gradient gets zeros.
/// A gradient that autograd adds to after the bucket is reduced is reduced again, with the mean of
/// the first time in it. DeepSpeed refuses a second reduction of a parameter in one backward
/// ("has already been reduced"), as it does a second entry in the same bucket; here it takes place.
///
/// A gradient that is still not ready when backward ends is dropped, and of the rank's own part
/// what the rank itself has is taken for the mean; stage 3 leaves it in `.grad`.
///
/// Stage 3: each parameter is flattened, padded and cut by itself, those that are not trained as
/// well. A module's own parameters are gathered where it is called and where backward comes to its
/// output, and released behind, in forward and backward alike: a module that is called again in
/// backward, by a checkpoint or for each tile, gathers each time. Who calls `forward`, and not the
/// module, bypasses this. Released parameters have their shape and no data (see FullyShard).
/// Gradients go through a bucket as in stage 2 and are reduce-scattered. In the first backward of a
/// step what is reduced replaces the part's gradient, in later ones it is added: a parameter that
/// is reduced twice in the first one keeps the second, and one that a step does not use has the
/// gradient of the step before. DeepSpeed refuses two entries of a parameter in the same bucket;
/// here both reduce what `.grad` is by then.
///
/// Not here: other dtypes for computing, reducing and stepping than the parameters' own, several
/// groups of parameters, offload, prefetches, persistent and reused parameters of stage 3, streams:
/// every collective ends before what follows. Stages 1 and 2 add up the parts of several backwards
/// that reduce, as DeepSpeed does where it does not manage the accumulation; where it does, a step
/// comes between them.
///
/// Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
/// models", 2020; DeepSpeed 0.19 for the mechanism.
class Zero : public ShardedModel {
 public:
  /// Takes `root` over for good, whatever becomes of this object. Ranks must have the same
  /// parameters; they are not compared and nothing is communicated. Throws Error (internal) for a
  /// stage that there is not, for parameters of several dtypes, and in stages 1 and 2 where none is
  /// trainable.
  ///
  /// `root`, its parts and `group` live as long as the model is trained.
  Zero(Module& root, ProcessGroup& group, const ZeroOptions& options = {});

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const Forward& forward) override;
  using ShardedModel::forward;

  Module& module() override;
  std::vector<NamedShard> shards() const override;
  void zero_grad() override;
  /// Stages 2 and 3 reduce in any case.
  void set_requires_gradient_sync(bool reduces) override;
  void finish_step() override;
  bool keeps_parameters_whole() const override;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
