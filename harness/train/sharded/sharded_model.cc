#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

std::vector<at::Tensor> ShardedModel::parameters() const {
  std::vector<at::Tensor> parameters;
  for (const NamedShard& shard : shards()) parameters.push_back(shard.tensor);
  return parameters;
}

void ShardedModel::zero_grad() {
  for (const NamedShard& shard : shards()) shard.tensor.mutable_grad() = at::Tensor();
}

}  // namespace lockstep
