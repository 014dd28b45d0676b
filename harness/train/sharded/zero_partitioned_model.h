#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_parameter.h"
#include "harness/train/sharded/zero.h"
#include "harness/train/sharded/zero_engine.h"

namespace lockstep {

/// Stage 3 of Zero: each parameter is partitioned separately, and whole only while a module that
/// owns it computes.
class ZeroPartitionedModel : public ZeroEngine,
                             public std::enable_shared_from_this<ZeroPartitionedModel> {
 public:
  ZeroPartitionedModel(Module& root, ProcessGroup& group, const ZeroOptions& options);

  /// Registers the hooks that backward calls.
  void hook_parameters();

  /// Gathers and releases the own parameters of `module`, before and after it computes with them.
  void fetch(const Module& module);
  void release(const Module& module);

  const std::vector<NamedShard>& shards() const override { return shards_; }
  bool keeps_parameters_whole() const override { return false; }
  void begin_forward() override;
  void finish_backward(bool is_boundary) override;
  void zero_grad() override;

 private:
  struct Member {
    explicit Member(ShardedParameter p) : parameter(std::move(p)) {}
    ShardedParameter parameter;
    at::Tensor gradient;  ///< same shape as the shard; kept from step to step
    std::set<const Module*> users;
    bool is_whole = false;
  };

  void partition(const NamedTensor& entry);
  void find_members(Module& module);
  void gather(const std::vector<Member*>& members);
  void note_gradient(Member& member);
  void reduce_bucket();
  at::Tensor reduce_scatter(const std::vector<Member*>& members);
  void take(Member& member, const at::Tensor& reduced) const;

  ProcessGroup& group_;
  ZeroOptions options_;
  std::list<Member> members_;
  std::unordered_map<const Module*, std::vector<Member*>> of_module_;
  std::vector<NamedShard> shards_;
  std::vector<Member*> bucket_;
  std::int64_t bucket_elements_ = 0;
  std::int64_t micro_step_ = 0;
  bool has_finished_backward_ = false;  ///< since the start of the last forward
};

}  // namespace lockstep
