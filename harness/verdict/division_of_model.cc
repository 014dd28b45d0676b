#include "harness/verdict/division_of_model.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep {

namespace {

/// The name of a group or of a dimension of a mesh, without what torch puts before it.
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kMesh = "mesh_";
  if (name.starts_with(kMesh)) name.remove_prefix(kMesh.size());
  return name;
}

/// Whether it is one of data parallelism: "mesh_dp", "fsdp", "dp_shard". Others divide the model or
/// a batch, or nobody knows what they divide.
bool is_of_data(std::string_view name) {
  constexpr std::array<std::string_view, 11> kData{
      "dp",        "fsdp",     "data",  "data_parallel", "dp_shard", "dp_replicate",
      "replicate", "replicas", "shard", "hsdp",          "batch"};
  return std::ranges::find(kData, plain_name(name)) != kData.end();
}

/// Whether ranks along it hold other experts, which see other samples.
bool is_of_experts(std::string_view name) {
  constexpr std::array<std::string_view, 4> kExperts{"ep", "expert", "experts", "expert_parallel"};
  return std::ranges::find(kExperts, plain_name(name)) != kExperts.end();
}

/// "dp 0" and "tp 1" of the replica group "dp 0, tp 1".
std::vector<std::string_view> coordinates_of(std::string_view group) {
  std::vector<std::string_view> all;
  while (!group.empty()) {
    const std::size_t comma = std::min(group.find(", "), group.size());
    all.push_back(group.substr(0, comma));
    group.remove_prefix(std::min(comma + 2, group.size()));
  }
  return all;
}

std::string_view dimension_of(std::string_view coordinate) {
  return coordinate.substr(0, coordinate.rfind(' '));
}

/// Whether a replica group has only dimensions of data.
bool is_part_by_data(std::string_view group) {
  const std::vector<std::string_view> all = coordinates_of(group);
  return std::ranges::all_of(
      all, [](std::string_view coordinate) { return is_of_data(dimension_of(coordinate)); });
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

PartsOfRanks parts_of_ranks(const StepReader& evidence) {
  PartsOfRanks parts;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::parameter || tensor.phase != Phase::post_step) continue;
    for (const std::string_view coordinate : coordinates_of(tensor.replica_group)) {
      const std::string_view dimension = dimension_of(coordinate);
      if (is_of_data(dimension) || is_of_experts(dimension)) continue;
      for (const int rank : ranks) parts[rank].emplace(coordinate);
    }
  }
  return parts;
}

bool do_divide_model(const std::vector<std::vector<int>>& groups, const PartsOfRanks& parts) {
  std::set<std::set<std::string>> seen;
  for (const std::vector<int>& ranks : groups) {
    std::set<std::set<std::string>> own;
    for (const int rank : ranks) {
      const auto part = parts.find(rank);
      if (part == parts.end()) return false;
      own.insert(part->second);
    }
    if (own.size() != 1 || !seen.insert(*own.begin()).second) return false;
  }
  return seen.size() > 1;
}

}  // namespace lockstep
