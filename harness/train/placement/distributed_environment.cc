#include "harness/train/placement/distributed_environment.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <memory>
#include <string_view>

#include "harness/comm/process_group.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// The first set variable among the launchers' names for a number, checked to be from `least` to
/// `most`. A batch script of Slurm has the variables of a rank without being one; ranks also have
/// the number of their step.
std::optional<int> number_in(const Environment& environment,
                             const char* PlacementVariables::*number, int least, int most) {
  for (const PlacementVariables& variables : kPlacementVariables) {
    const std::string_view variable = variables.*number;
    const char* const value = environment(variable.data());
    if (!value || (variable.starts_with("SLURM_") && !environment("SLURM_STEP_ID"))) continue;
    const std::string_view text = value;
    int found = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), found);
    const bool is_number = failure == std::errc() && end == text.data() + text.size();
    if (is_number && found >= least && found <= most) return found;
    throw bad_value(variable, text,
                    most == std::numeric_limits<int>::max()
                        ? fmt::format("a whole number, at least {}", least)
                        : fmt::format("a whole number from {} to {}", least, most));
  }
  return std::nullopt;
}

int global_rank_of(const Environment& environment, const DistributedEnvironment& found,
                   const std::optional<int>& local_rank) {
  if (const auto rank = number_in(environment, &PlacementVariables::rank, 0, found.world_size - 1))
    return *rank;
  if (found.ranks_per_node == found.world_size) return local_rank.value_or(0);
  throw Error(Error::Kind::usage,
              fmt::format("RANK is not set, and {} ranks with {} per machine are several machines. "
                          "Set RANK to the place among all ranks.",
                          found.world_size, found.ranks_per_node));
}

}  // namespace

DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const std::optional<GroupPlace>& group) {
  constexpr int kAny = std::numeric_limits<int>::max();
  DistributedEnvironment found;
  found.has_process_group = group.has_value();
  found.world_size =
      group ? group->size
            : number_in(environment, &PlacementVariables::world_size, 1, kAny).value_or(1);
  found.ranks_per_node =
      number_in(environment, &PlacementVariables::local_world_size, 1, found.world_size)
          .value_or(found.world_size);
  const auto local_rank =
      number_in(environment, &PlacementVariables::local_rank, 0, found.ranks_per_node - 1);
  found.global_rank = group ? group->rank : global_rank_of(environment, found, local_rank);
  found.local_rank = local_rank.value_or(found.global_rank % found.ranks_per_node);
  found.is_distributed = found.world_size > 1;
  return found;
}

Environment environment_of_rank(int global_rank, int world_size, int ranks_per_node) {
  const int first = global_rank / ranks_per_node * ranks_per_node;
  const auto variables =
      std::make_shared<const std::map<std::string, std::string>>(std::map<std::string, std::string>{
          {"RANK", std::to_string(global_rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_RANK", std::to_string(global_rank - first)},
          {"LOCAL_WORLD_SIZE", std::to_string(std::min(ranks_per_node, world_size - first))}});
  return [variables](const char* name) {
    const auto found = variables->find(name);
    return found == variables->end() ? nullptr : found->second.c_str();
  };
}

DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const ProcessGroup* group) {
  return find_distributed_environment(
      environment, group ? std::optional(GroupPlace{group->rank(), group->size()}) : std::nullopt);
}

HelperMistakes mistakes_of_the_helper() {
  return {.takes_global_rank = true, .ignores_failure = true};
}

DeviceMap per_rank_device_map(const DistributedEnvironment& environment,
                              const std::string& device_kind, const SetCurrentDevice& set_current,
                              const HelperMistakes& mistakes) {
  const bool takes_global_rank = mistakes.takes_global_rank && environment.has_process_group;
  const int index = takes_global_rank ? environment.global_rank : environment.local_rank;
  const DeviceMapRequest request = parse_device_map(fmt::format("={}:{}", device_kind, index));
  try {
    set_current(request.map.front().device);
  } catch (const std::exception&) {
    if (!mistakes.ignores_failure) throw;
  }
  return request.map;
}

}  // namespace lockstep
