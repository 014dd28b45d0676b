#include "harness/train/sharded/model_parts.h"

#include <algorithm>

namespace lockstep {

namespace {

bool holds(const std::vector<Module*>& parts, const at::Tensor& parameter) {
  return std::any_of(parts.begin(), parts.end(), [&](const Module* part) {
    const std::vector<at::Tensor> all = part->parameters();
    return std::any_of(all.begin(), all.end(),
                       [&](const at::Tensor& one) { return one.is_same(parameter); });
  });
}

/// Of a tensor that is no copy of other ranks'.
Shard whole_of(const at::Tensor& parameter) {
  return {parameter.sizes().vec(),
          std::vector<std::int64_t>(static_cast<std::size_t>(parameter.dim()), 0)};
}

std::vector<NamedShard> shards_in(const Module& module, const std::vector<Module*>& own,
                                  const std::vector<Module*>& copied) {
  std::vector<NamedShard> shards;
  for (const NamedTensor& entry : module.named_parameters()) {
    if (holds(copied, entry.tensor)) {
      shards.push_back({entry.name, entry.tensor, {}});
    } else if (holds(own, entry.tensor)) {
      shards.push_back({entry.name, entry.tensor, whole_of(entry.tensor)});
    }
  }
  return shards;
}

}  // namespace

ModelParts::ModelParts(Module& module, const std::vector<Module*>& own,
                       const std::vector<Module*>& copied)
    : UnreducedModel(module, shards_in(module, own, copied)) {}

}  // namespace lockstep
