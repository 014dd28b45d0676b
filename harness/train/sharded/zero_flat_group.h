#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/partition_layout.h"
#include "harness/train/sharded/zero.h"
#include "harness/train/sharded/zero_engine.h"

namespace lockstep {

/// Stages 1 and 2 of Zero: all trainable parameters flattened into one group, of which this rank
/// steps a partition.
class ZeroFlatGroup : public ZeroEngine, public std::enable_shared_from_this<ZeroFlatGroup> {
 public:
  ZeroFlatGroup(Module& root, ProcessGroup& group, const ZeroOptions& options);

  /// Registers the hooks that backward calls.
  void hook_parameters();

  const std::vector<NamedShard>& shards() const override { return shards_; }
  bool keeps_parameters_whole() const override { return true; }
  void finish_backward(bool is_boundary) override;
  void zero_grad() override;
  void finish_step() override;

 private:
  /// A parameter of the group.
  struct Member {
    std::string name;
    at::Tensor parameter;  ///< lies in `flat_`
    at::Tensor shard;      ///< lies in `partition_`
    PartitionPiece own;
    bool takes_mean = true;      ///< of its own piece
    std::int64_t read_from = 0;  ///< first element of its own piece in the gradient
  };
  /// A gradient that waits for the reduction.
  struct Entry {
    std::size_t member;
    at::Tensor flat;  ///< its data, shared with `.grad` when it was recorded
  };

  void flatten(const std::vector<NamedTensor>& trainable);
  void keep_books(const PartitionLayout& layout);
  void list_shards(const Module& root);
  void note_gradient(std::size_t member);
  void reduce_bucket();
  void all_reduce(std::vector<Entry>& entries);
  void keep_or_drop(Member& member) const;
  at::Tensor piece_of_gradient(const Member& member) const;

  ProcessGroup& group_;
  ZeroOptions options_;
  std::vector<Member> members_;
  at::Tensor flat_;       ///< [elements of the layout]; the parameters are views of it
  at::Tensor partition_;  ///< [elements of a partition]; this rank's own copy, which it steps
  std::vector<NamedShard> shards_;
  std::vector<Entry> bucket_;
  std::int64_t bucket_elements_ = 0;
};

}  // namespace lockstep
