#include "harness/train/sharded/tensor_parallel.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>

#include "reports/base/error.h"

namespace lockstep {

namespace {

/// Replaces `parameter` by its part number `rank` of `ranks`; returns the part's place.
Shard keep_part(at::Tensor& parameter, std::int64_t dim, int rank, int ranks) {
  Shard place{parameter.sizes().vec(), std::vector<std::int64_t>(parameter.dim(), 0)};
  const std::int64_t length = parameter.size(dim) / ranks;
  place.offset[static_cast<std::size_t>(dim)] = rank * length;
  parameter.set_data(parameter.detach().narrow(dim, rank * length, length).clone());
  return place;
}

std::vector<NamedShard> split_module(const Module& module, const std::vector<TensorSplit>& splits,
                                     const ProcessGroup& group) {
  std::vector<NamedShard> shards;
  for (const NamedTensor& entry : module.named_parameters()) {
    shards.push_back({entry.name, entry.tensor, {}});
  }
  for (const TensorSplit& split : splits) {
    const auto named = [&](const NamedShard& shard) { return shard.name == split.name; };
    const auto found = std::find_if(shards.begin(), shards.end(), named);
    if (found == shards.end()) {
      throw internal_error(fmt::format("the model has no parameter {}", split.name));
    }
    found->place = keep_part(found->tensor, split.dim, group.rank(), group.size());
  }
  return shards;
}

}  // namespace

TensorParallel::TensorParallel(Module& module, const std::vector<TensorSplit>& splits,
                               const ProcessGroup& group)
    : UnreducedModel(module, split_module(module, splits, group)) {}

std::vector<at::Tensor> TensorParallel::whole_parameters() const {
  std::vector<at::Tensor> whole;
  for (const NamedShard& shard : shards()) {
    const bool is_whole = shard.place.global_shape.empty();
    if (is_whole && shard.tensor.requires_grad()) whole.push_back(shard.tensor);
  }
  return whole;
}

}  // namespace lockstep
