#include "harness/verdict/shared_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSteps = 8;
constexpr std::size_t kFewestSteps = 4;

/// What a rank saw in a step: by input, the samples of all micro-batches.
using Batch = std::map<std::string, Digest>;

/// What the ranks saw in the first observed steps.
class Seen {
 public:
  explicit Seen(const StepReader& evidence)
      : ranks_(static_cast<std::size_t>(evidence.processes())) {
    for (const std::int64_t number : evidence.steps()) {
      if (steps_.size() == kMostSteps) break;
      add(*evidence.at(number));
    }
  }

  const std::vector<std::int64_t>& steps() const { return steps_; }

  /// The ranks that saw the same, where several did.
  std::vector<std::vector<int>> groups() const {
    std::map<std::vector<Batch>, std::vector<int>> alike;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool is_known =
          std::ranges::any_of(ranks_[rank], [](const Batch& batch) { return !batch.empty(); });
      if (is_known) alike[ranks_[rank]].push_back(static_cast<int>(rank));
    }
    std::vector<std::vector<int>> groups;
    for (auto& [batches, ranks] : alike) {
      if (ranks.size() > 1) groups.push_back(std::move(ranks));
    }
    return groups;
  }

  /// Whether rank 0 saw other samples in every step, and more than there are ranks.
  bool moves_on() const {
    const std::set<Batch> batches(ranks_[0].begin(), ranks_[0].end());
    return steps_.size() >= kFewestSteps && batches.size() == steps_.size() &&
           !batches.contains(Batch()) && samples_ > static_cast<std::int64_t>(ranks_.size());
  }

 private:
  void add(const StepView& step) {
    steps_.push_back(step.number());
    for (int rank = 0; rank < step.processes(); ++rank) {
      Batch& batch = ranks_[static_cast<std::size_t>(rank)].emplace_back();
      std::int64_t largest = 0;
      for (const Observation& row : step.observations(rank)) {
        if (row.kind != Kind::data || !row.not_comparable.empty()) continue;
        batch[row.name] += row.digest;
        if (!row.local_shape.empty()) largest = std::max(largest, row.local_shape[0]);
      }
      if (rank == 0) samples_ += largest;
    }
  }

  std::vector<std::int64_t> steps_;
  std::vector<std::vector<Batch>> ranks_;  ///< by rank and step
  std::int64_t samples_ = 0;               ///< that rank 0 saw
};

bool has_data(const StepReader& evidence) {
  return std::ranges::any_of(
      evidence.tensors(), [](const auto& observed) { return observed.first.kind == Kind::data; });
}

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

/// Whether each rank holds a copy of every parameter, or parts that data parallelism made.
bool is_data_parallel(const JobRecord& job, const StepReader& evidence, const Coverage& coverage) {
  const bool has_other_group = std::ranges::any_of(
      job.groups, [](const NamedGroup& group) { return !is_of_data(group.name); });
  if (has_other_group) return false;
  bool has_parts = false;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::parameter || tensor.phase != Phase::post_step) continue;
    const bool is_copy =
        tensor.replica_group.empty() && static_cast<int>(ranks.size()) == job.world_size;
    const bool is_part = !tensor.replica_group.empty() && is_part_by_data(tensor.replica_group);
    if (!is_copy && !is_part) return false;
    has_parts = has_parts || is_part;
  }
  return has_parts || (coverage.compared == coverage.parameters && job.calls_in_forward == 0);
}

/// Whether ranks called collectives over all of them, in every step but the first.
bool communicates(const JobRecord& job) {
  bool is_known = false;
  for (const Traffic& one : job.traffic) {
    if (one.group_size != job.world_size || one.last_step < 2) continue;
    if (one.collectives == 0) return false;
    is_known = true;
  }
  return is_known || job.traffic.empty();
}

Finding finding_of(const JobRecord& job, const Seen& seen) {
  Finding finding;
  finding.claim = divide_samples();
  finding.kind = FindingKind::same_samples;
  finding.step = seen.steps().front();
  finding.last_step = seen.steps().back();
  finding.places = static_cast<std::int64_t>(seen.steps().size());
  finding.groups.emplace_back();
  for (int rank = 0; rank < job.world_size; ++rank) finding.groups[0].push_back(rank);
  finding.sentence = fmt::format(
      "all {} ranks saw the same samples in each of {} steps, {} to {}. Batches differ between "
      "steps, and nothing says that ranks share them: the data is not divided.",
      job.world_size, seen.steps().size(), seen.steps().front(), seen.steps().back());
  return finding;
}

}  // namespace

SharedSamples shared_samples(const JobRecord& job, const StepReader& evidence,
                             const Coverage& coverage) {
  SharedSamples shared;
  if (!has_data(evidence)) return shared;
  const Seen seen(evidence);
  const auto groups = seen.groups();
  for (const std::vector<int>& ranks : groups) {
    shared.text += fmt::format("{}{} saw the same samples", shared.text.empty() ? "" : "; ",
                               ranks_in_words(ranks));
  }
  if (groups.empty()) return shared;
  const std::size_t steps = seen.steps().size();
  shared.text += steps == 1 ? fmt::format(" in step {}", seen.steps().front())
                            : fmt::format(" in each of the first {} steps", steps);
  const bool are_all =
      static_cast<int>(groups[0].size()) == job.world_size && job.elsewhere.empty();
  if (are_all && seen.moves_on() && is_data_parallel(job, evidence, coverage) &&
      communicates(job)) {
    shared.fault = finding_of(job, seen);
  }
  return shared;
}

}  // namespace lockstep
