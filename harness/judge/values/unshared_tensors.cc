#include "harness/judge/values/unshared_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

/// The values of one tensor, or of one shard of it, on the ranks that hold copies.
using Copies = std::vector<const Observation*>;

/// The copies of each tensor of a kind in a phase, by name.
std::map<std::string, std::vector<Copies>> copies_in(const StepView& step, Kind kind, Phase phase) {
  using Key = std::pair<std::string, std::vector<std::int64_t>>;  // replica group, offset
  std::map<std::string, std::map<Key, Copies>> found;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& one : step.observations(rank)) {
      if (one.kind != kind || one.phase != phase) continue;
      found[one.name][{one.replica_group, one.offset}].push_back(&one);
    }
  }
  std::map<std::string, std::vector<Copies>> copies;
  for (auto& [name, parts] : found) {
    for (auto& [key, holders] : parts) copies[name].push_back(std::move(holders));
  }
  return copies;
}

bool is_equal(const Copies& copies) {
  for (const Observation* one : copies) {
    if (!is_same_value(*one, *copies.front())) return false;
  }
  return true;
}

bool are_equal(const std::vector<Copies>& tensor) {
  for (const Copies& copies : tensor) {
    if (!is_equal(copies)) return false;
  }
  return true;
}

/// Whether several ranks hold a value, all the same.
bool are_shared(const std::vector<Copies>& tensor) {
  bool has_copies = false;
  for (const Copies& copies : tensor) {
    has_copies = has_copies || (copies.size() > 1 && copies.front()->not_comparable.empty());
  }
  return has_copies && are_equal(tensor);
}

/// Whether ranks hold whole tensors of one shape, but not of one dtype.
bool is_of_another_dtype(const Copies& copies) {
  const Observation& first = *copies.front();
  const bool are_whole = std::ranges::all_of(copies, [&](const Observation* one) {
    return one->replica_group.empty() && one->local_shape == one->global_shape &&
           one->not_comparable.empty() && one->global_shape == first.global_shape;
  });
  return are_whole && std::ranges::any_of(copies, [&](const Observation* one) {
           return one->dtype != first.dtype;
         });
}

bool is_of_another_dtype(const std::vector<Copies>& tensor) {
  return tensor.size() == 1 && is_of_another_dtype(tensor.front());
}

/// " (its shape is [8, 4] on rank 0 and [4, 4] on rank 1)"; empty: all have the same.
std::string shapes_in_words(const StepView& step, const std::string& name) {
  const Observation* first = nullptr;
  int holder = 0;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& one : step.observations(rank)) {
      const bool is_it =
          one.kind == Kind::parameter && one.phase == Phase::pre_forward && one.name == name;
      if (!is_it) continue;
      if (!first) {
        first = &one;
        holder = rank;
      } else if (one.global_shape != first->global_shape) {
        return fmt::format(" (its shape is {} on rank {} and {} on rank {})",
                           shape_in_words(first->global_shape), holder,
                           shape_in_words(one.global_shape), rank);
      }
    }
  }
  return "";
}

bool has_gradient(const StepView& step, const std::string& name) {
  const auto gradients = copies_in(step, Kind::gradient, Phase::pre_step);
  const auto found = gradients.find(name);
  return found != gradients.end() && std::ranges::any_of(found->second, [](const Copies& copies) {
           return copies.front()->not_comparable.empty();
         });
}

}  // namespace

std::set<std::string> unshared_tensors(const CellEvidence& cell) {
  if (!cell.is_job || !cell.evidence || cell.evidence->steps().empty()) return {};
  const std::int64_t first = cell.evidence->steps().front();
  if (cell.evidence->agreed_set(first)) return {};
  const auto step = cell.evidence->at(first);
  const auto gradients = copies_in(*step, Kind::gradient, Phase::pre_step);
  std::set<std::string> unshared;
  for (const auto& [name, tensor] : copies_in(*step, Kind::parameter, Phase::pre_forward)) {
    const auto gradient = gradients.find(name);
    const bool is_synchronised = gradient != gradients.end() && are_shared(gradient->second);
    if (are_equal(tensor) || is_synchronised || is_of_another_dtype(tensor)) continue;
    unshared.insert(name);
  }
  return unshared;
}

std::string unshared_in_words(const CellEvidence& cell) {
  const std::set<std::string>& names = cell.unshared;
  if (names.empty()) return "";
  const auto step = cell.evidence->at(cell.evidence->steps().front());
  const std::string more =
      names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : std::string();
  return fmt::format(
      "{}{}{} differ between ranks before the first step, and {}: their initialisation differs, or "
      "each rank holds its own shard; --replicas or --ignore settles it",
      *names.begin(), shapes_in_words(*step, *names.begin()), more,
      has_gradient(*step, *names.begin()) ? "so do their gradients"
                                          : "no gradient says that they are copies");
}

}  // namespace lockstep
