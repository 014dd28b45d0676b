#include "harness/verdict/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

/// One rank, or several.
struct Ranks {
  int first = -1;
  bool are_several = false;

  void add(std::span<const int> ranks) {
    if (first < 0) first = ranks.front();
    are_several = are_several || ranks.size() > 1 || ranks.front() != first;
  }
};

/// A parameter as the ranks hold it.
struct Held {
  /// Ranks that hold copies of one value, by replica group and offset of the shard.
  std::map<std::pair<Interned<std::string>, Interned<Shape>>, Ranks> copies;
  Ranks ranks;
  std::string not_comparable;  ///< the first reason
};

std::map<std::string, Held> held_parameters(const StepReader& evidence) {
  std::map<std::string, Held> parameters;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::parameter) continue;
    Held& held = parameters[tensor.name];
    held.ranks.add(ranks);
    if (tensor.not_comparable.empty()) {
      held.copies[{tensor.replica_group, tensor.offset}].add(ranks);
    } else if (held.not_comparable.empty()) {
      held.not_comparable = tensor.not_comparable;
    }
  }
  return parameters;
}

constexpr const char* kOnOneRank = "on one rank only";
constexpr std::size_t kNamedRanks = 4;  ///< stages of a pipeline may be many

int ranks_with_parameters(const StepReader& evidence) {
  std::set<int> all;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind == Kind::parameter) all.insert(ranks.begin(), ranks.end());
  }
  return static_cast<int>(all.size());
}

/// The ranks that alone hold some parameter.
std::set<int> lone_holders(const std::map<std::string, Held>& parameters) {
  std::set<int> ranks;
  for (const auto& [name, held] : parameters) {
    if (!held.ranks.are_several) ranks.insert(held.ranks.first);
  }
  return ranks;
}

/// Whether each part has one holder, because the training says which part or group it is of.
bool is_declared(const Held& held) {
  return held.not_comparable.empty() &&
         std::all_of(held.copies.begin(), held.copies.end(), [](const auto& one) {
           return !one.second.are_several && !one.first.first.empty();
         });
}

/// Why no two ranks hold copies of the parameter; empty if they do.
std::string obstacle(const Held& held) {
  const bool has_copies = std::any_of(held.copies.begin(), held.copies.end(),
                                      [](const auto& one) { return one.second.are_several; });
  if (has_copies) return "";
  if (held.copies.empty()) return held.not_comparable;
  return !held.ranks.are_several ? kOnOneRank : "every rank holds another part";
}

void note(Kind kind, const std::string& reason, const std::string& name, Coverage& coverage) {
  const auto known = std::ranges::find_if(coverage.not_compared, [&](const NotCompared& one) {
    return one.kind == kind && one.reason == reason;
  });
  if (known == coverage.not_compared.end()) {
    coverage.not_compared.push_back({kind, reason, 1, name});
  } else {
    ++known->count;
  }
}

/// Adds the gradients that cannot be compared, of parameters that are. `alone`: names that are not.
void add_gradients(const StepReader& evidence, const std::set<std::string>& alone,
                   Coverage& coverage) {
  std::map<std::string, std::string> reasons;  // by name
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    const bool is_asked = tensor.kind == Kind::gradient && tensor.phase == Phase::pre_step &&
                          !is_undefined(tensor) && !alone.contains(tensor.name);
    if (!is_asked) continue;
    if (tensor.is_summand) {
      reasons.emplace(tensor.name, "each rank holds a summand of it");
    } else if (!tensor.not_comparable.empty()) {
      reasons.emplace(tensor.name, tensor.not_comparable);
    }
  }
  for (const auto& [name, reason] : reasons) note(Kind::gradient, reason, name, coverage);
}

void note_until(Kind kind, const std::string& name, std::int64_t step, Coverage& coverage) {
  const auto known = std::ranges::find_if(coverage.until, [&](const ComparedUntil& one) {
    return one.kind == kind && one.step == step;
  });
  if (known == coverage.until.end()) {
    coverage.until.push_back({kind, step, 1, name});
  } else {
    ++known->count;
  }
}

/// `alone`: names that were never compared.
void add_ended(const EndedTensors& ended, const std::set<std::string>& alone, Coverage& coverage) {
  for (const auto& [name, step] : ended.parameters) {
    if (!alone.contains(name)) note_until(Kind::parameter, name, step, coverage);
  }
  for (const auto& [name, step] : ended.gradients) {
    const auto parameter = ended.parameters.find(name);
    const bool is_told = parameter != ended.parameters.end() && parameter->second == step;
    if (!is_told && !alone.contains(name)) note_until(Kind::gradient, name, step, coverage);
  }
  std::ranges::stable_sort(coverage.until, {}, &ComparedUntil::step);
}

}  // namespace

Coverage coverage_of(const CellEvidence& job, const EndedTensors& ended) {
  const StepReader& evidence = *job.evidence;
  Coverage coverage;
  std::set<std::string> alone;
  const std::map<std::string, Held> parameters = held_parameters(evidence);
  const bool are_few = lone_holders(parameters).size() <= kNamedRanks;
  for (const auto& [name, held] : parameters) {
    ++coverage.parameters;
    const bool is_unshared = job.unshared.contains(name);
    if (is_unshared) ++coverage.unshared;
    if (!is_unshared && is_declared(held)) ++coverage.declared;
    std::string reason =
        is_unshared ? "initialised differently, or shards that do not say so" : obstacle(held);
    if (job.own.contains(name)) {
      reason = "each rank has its own";
    } else if (reason == kOnOneRank && are_few) {
      reason = fmt::format("on rank {} only", held.ranks.first);
    }
    if (reason.empty()) {
      ++coverage.compared;
    } else {
      alone.insert(name);
      note(Kind::parameter, reason, name, coverage);
    }
  }
  coverage.ranks = ranks_with_parameters(evidence);
  add_gradients(evidence, alone, coverage);
  add_ended(ended, alone, coverage);
  return coverage;
}

}  // namespace lockstep
