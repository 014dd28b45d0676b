#include "harness/verdict/division_of_model.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep {

namespace {

/// Whether the name of a group or of a dimension of a mesh is one of data parallelism: "mesh_dp",
/// "fsdp", "dp_shard". Others divide the model or a batch, or nobody knows what they divide.
bool is_of_data(std::string_view name) {
  constexpr std::array<std::string_view, 11> kData{
      "dp",        "fsdp",     "data",  "data_parallel", "dp_shard", "dp_replicate",
      "replicate", "replicas", "shard", "hsdp",          "batch"};
  constexpr std::string_view kMesh = "mesh_";
  if (name.starts_with(kMesh)) name.remove_prefix(kMesh.size());
  return std::ranges::find(kData, name) != kData.end();
}

/// Whether a replica group, "dp 0, tp 1", has only dimensions of data.
bool is_part_by_data(std::string_view group) {
  while (!group.empty()) {
    const std::size_t comma = std::min(group.find(", "), group.size());
    const std::string_view one = group.substr(0, comma);
    if (!is_of_data(one.substr(0, one.rfind(' ')))) return false;
    group.remove_prefix(std::min(comma + 2, group.size()));
  }
  return true;
}

}  // namespace

Division division_of_model(const JobRecord& job, const StepReader& evidence,
                           const Coverage& coverage) {
  const bool has_other_group = std::ranges::any_of(
      job.groups, [](const NamedGroup& group) { return !is_of_data(group.name); });
  if (has_other_group) return Division::other;
  bool has_parts = false;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::parameter || tensor.phase != Phase::post_step) continue;
    const bool is_copy =
        tensor.replica_group.empty() && static_cast<int>(ranks.size()) == training_ranks(job);
    const bool is_part = !tensor.replica_group.empty() && is_part_by_data(tensor.replica_group);
    if (!is_copy && !is_part) return Division::other;
    has_parts = has_parts || is_part;
  }
  if (has_parts) return Division::parts_by_data;
  return coverage.compared == coverage.parameters ? Division::copies : Division::other;
}

}  // namespace lockstep
