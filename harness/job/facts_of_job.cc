#include "harness/job/facts_of_job.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/job/add_facts.h"
#include "harness/job/settings_apart.h"
#include "harness/job/straggler.h"
#include "harness/job/wrong_metrics.h"

namespace lockstep {

namespace {

std::vector<std::int64_t> skipped_steps_in(const std::map<int, RankFacts>& facts) {
  std::set<std::int64_t> steps;
  for (const auto& [rank, one] : facts) {
    steps.insert(one.skipped_steps.begin(), one.skipped_steps.end());
  }
  return {steps.begin(), steps.end()};
}

std::vector<StepsOfRanks> by_steps(
    const std::map<std::vector<std::int64_t>, std::vector<int>>& ranks) {
  std::vector<StepsOfRanks> all;
  for (const auto& [steps, those] : ranks) all.push_back({steps, those});
  return all;
}

std::vector<StepsOfRanks> skipped_by_in(const std::map<int, RankFacts>& facts) {
  std::map<std::vector<std::int64_t>, std::vector<int>> ranks;
  for (const auto& [rank, one] : facts) {
    if (!one.skipped_steps.empty()) ranks[one.skipped_steps].push_back(rank);
  }
  return by_steps(ranks);
}

std::vector<StepsOfRanks> written_by_in(const std::map<int, RankFacts>& facts) {
  constexpr std::size_t kMostSteps = 64;
  std::map<std::vector<std::int64_t>, std::vector<int>> ranks;
  for (const auto& [rank, one] : facts) {
    std::vector<std::int64_t> steps = one.written_before;
    if (steps.size() > kMostSteps) steps.resize(kMostSteps);
    if (!steps.empty()) ranks[steps].push_back(rank);
  }
  return by_steps(ranks);
}

/// `member`: the calls of a rank.
std::vector<Traffic> traffic_in(const std::map<int, RankFacts>& facts,
                                std::vector<CallsPerStep> RankFacts::*member) {
  std::map<CallsPerStep, std::vector<int>> callers;
  for (const auto& [rank, one] : facts) {
    for (const CallsPerStep& calls : one.*member) callers[calls].push_back(rank);
  }
  std::vector<Traffic> traffic;
  for (const auto& [calls, ranks] : callers) {
    traffic.push_back(
        {ranks, calls.group_size, calls.first_step, calls.last_step, calls.collectives});
  }
  return traffic;
}

std::vector<NamedGroup> groups_in(const std::map<int, RankFacts>& facts) {
  std::map<std::pair<std::string, int>, std::vector<int>> members;
  for (const auto& [rank, one] : facts) {
    for (const auto& group : one.groups) {
      if (group.second > 0) members[group].push_back(rank);
    }
  }
  std::vector<NamedGroup> groups;
  for (const auto& [group, ranks] : members) groups.push_back({group.first, group.second, ranks});
  return groups;
}

/// `member`: values by name.
std::vector<Setting> settings_in(const std::map<int, RankFacts>& facts,
                                 std::map<std::string, std::string> RankFacts::*member) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> holders;
  for (const auto& [rank, one] : facts) {
    for (const auto& setting : one.*member) holders[setting].push_back(rank);
  }
  std::vector<Setting> configuration;
  for (const auto& [setting, ranks] : holders) {
    configuration.push_back({setting.first, setting.second, ranks});
  }
  return configuration;
}

std::vector<Precision> precisions_in(const std::map<int, RankFacts>& facts) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::vector<int>> holders;
  for (const auto& [rank, one] : facts) {
    for (const Precision& seen : one.precisions) {
      holders[{seen.operation, seen.dtype, seen.first_step}].push_back(rank);
    }
  }
  std::vector<Precision> precisions;
  for (const auto& [seen, ranks] : holders) {
    const auto& [operation, dtype, first_step] = seen;
    precisions.push_back({operation, dtype, first_step, ranks});
  }
  return precisions;
}

/// The same on several ranks is one. Where it is over on one of them, the earliest step counts.
std::vector<Unreduced> unreduced_in(const std::map<int, RankFacts>& facts) {
  std::vector<Unreduced> all;
  for (const auto& [rank, one] : facts) {
    for (const Unreduced& own : one.unreduced) {
      const auto known = std::ranges::find_if(all, [&](const Unreduced& other) {
        return std::tie(own.reason, own.wrapper, own.place, own.first_step, own.parameters) ==
               std::tie(other.reason, other.wrapper, other.place, other.first_step,
                        other.parameters);
      });
      Unreduced& found = known == all.end() ? all.emplace_back(own) : *known;
      const bool is_earlier = own.last_step > 0 && own.last_step < found.last_step;
      if (found.last_step == 0 || is_earlier) found.last_step = own.last_step;
      found.is_repeated = found.is_repeated || own.is_repeated;
      found.is_evaluated = found.is_evaluated || own.is_evaluated;
      found.ranks.push_back(rank);
    }
  }
  return all;
}

/// By ranks that did the same, in one step or another. None, if all did.
std::vector<LastCalls> last_calls_in(const std::map<int, RankFacts>& facts) {
  std::vector<LastCalls> all;
  for (const auto& [rank, one] : facts) {
    if (!one.last_calls) continue;
    const LastCalls& own = *one.last_calls;
    const auto known = std::ranges::find_if(all, [&own](const LastCalls& other) {
      return std::tie(other.without_gradient, other.calls) ==
             std::tie(own.without_gradient, own.calls);
    });
    LastCalls& found = known == all.end() ? all.emplace_back(own) : *known;
    found.ranks.push_back(rank);
  }
  return all.size() > 1 ? all : std::vector<LastCalls>();
}

/// The same on several ranks is one, which holds where all of them saw it.
std::vector<Untrained> untrained_in(const std::map<int, RankFacts>& facts) {
  std::vector<Untrained> all;
  for (const auto& [rank, one] : facts) {
    for (const Untrained& own : one.untrained) {
      const auto known = std::ranges::find_if(all, [&own](const Untrained& other) {
        return std::tie(own.optimizer, own.place, own.is_sharded, own.held, own.parameters) ==
               std::tie(other.optimizer, other.place, other.is_sharded, other.held,
                        other.parameters);
      });
      Untrained& found = known == all.end() ? all.emplace_back(own) : *known;
      found.first_step = std::max(found.first_step, own.first_step);
      found.last_step = std::min(found.last_step, own.last_step);
      found.ranks.push_back(rank);
    }
  }
  return all;
}

std::vector<BrokenTie> broken_ties_in(const std::map<int, RankFacts>& facts) {
  std::map<std::vector<std::string>, BrokenTie> ties;
  for (const auto& [rank, one] : facts) {
    for (const BrokenTie& own : one.broken_ties) {
      BrokenTie& tie = ties.try_emplace(own.parameters, own).first->second;
      tie.step = std::max(tie.step, own.step);
      tie.ranks.push_back(rank);
    }
  }
  std::vector<BrokenTie> all;
  for (auto& [names, tie] : ties) all.push_back(std::move(tie));
  return all;
}

/// Parameters that ranks have divided.
class Divisions {
 public:
  void add(const DividedParameters& own) {
    for (std::size_t i = 0; i < own.parameters.size(); ++i) {
      const Parameter parameter(own.number, own.parameters[i]);
      const auto [found, is_first] = digests_.try_emplace(parameter);
      found->second.insert(own.digests[i]);
      if (is_first) by_place_[{own.wrapper, own.place}].push_back(parameter);
    }
  }

  /// Those of which ranks had other wholes, by wrapper and place.
  std::vector<DividedApart> apart() const {
    std::vector<DividedApart> all;
    for (const auto& [where, parameters] : by_place_) {
      DividedApart one{where.first, where.second, static_cast<std::int64_t>(parameters.size()), {}};
      for (const Parameter& parameter : parameters) {
        if (digests_.at(parameter).size() > 1) one.parameters.push_back(parameter.second);
      }
      if (!one.parameters.empty()) all.push_back(std::move(one));
    }
    return all;
  }

 private:
  using Parameter = std::pair<std::int64_t, std::string>;  ///< the call, and a name

  std::map<Parameter, std::set<std::string>> digests_;
  std::map<std::pair<std::string, std::string>, std::vector<Parameter>> by_place_;
};

std::vector<DividedApart> divided_apart_in(const std::map<int, RankFacts>& facts) {
  Divisions divisions;
  for (const auto& [rank, one] : facts) {
    for (const DividedParameters& own : one.divided) divisions.add(own);
  }
  return divisions.apart();
}

std::vector<PairedParameters> parameter_orders_in(const std::map<int, RankFacts>& facts) {
  std::vector<PairedParameters> all;
  for (const auto& [rank, one] : facts) {
    std::vector<PairedParameters> own = one.parameter_orders;
    for (PairedParameters& fact : own) fact.ranks = {rank};
    add_facts(own, all);
  }
  return all;
}

/// Facts of ranks by what they have in common. `key`: all of a fact but its ranks. The same on
/// several ranks is one, and so are two alike on a rank.
template <class Fact, class Key>
std::vector<Fact> by_ranks(const std::map<int, RankFacts>& facts,
                           std::vector<Fact> RankFacts::*member, const Key& key) {
  std::map<std::invoke_result_t<Key, const Fact&>, Fact> alike;
  for (const auto& [rank, one] : facts) {
    for (const Fact& own : one.*member) {
      std::vector<int>& ranks = alike.try_emplace(key(own), own).first->second.ranks;
      if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
    }
  }
  std::vector<Fact> all;
  for (auto& [common, fact] : alike) all.push_back(std::move(fact));
  return all;
}

std::vector<SamplerUse> samplers_in(const std::map<int, RankFacts>& facts) {
  return by_ranks(facts, &RankFacts::samplers, [](const SamplerUse& one) {
    return std::tuple(one.name, one.place, one.samples, one.parts, one.part, one.seed, one.passes,
                      one.repeats);
  });
}

std::vector<FrozenParameter> frozen_in(const std::map<int, RankFacts>& facts) {
  return by_ranks(facts, &RankFacts::frozen, [](const FrozenParameter& one) {
    return std::tuple(one.model, one.name, one.first, one.last, one.is_buffer);
  });
}

std::vector<DeviceUse> devices_in(const std::map<int, RankFacts>& facts) {
  return by_ranks(facts, &RankFacts::devices, [](const DeviceUse& one) {
    return std::tuple(one.device, one.id, one.parameters, one.names);
  });
}

/// By ranks with as many steps, of those that were stepped otherwise on some.
std::vector<ScheduleSteps> schedules_in(const std::map<int, RankFacts>& facts) {
  using Key = std::tuple<std::string, std::string, std::int64_t>;  // until which step
  std::map<Key, std::map<std::int64_t, std::vector<int>>> ranks;
  for (const auto& [rank, one] : facts) {
    for (const ScheduleSteps& own : one.schedules) {
      ranks[{own.name, own.optimizer, own.step}][own.steps].push_back(rank);
    }
  }
  std::vector<ScheduleSteps> schedules;
  for (const auto& [key, counts] : ranks) {
    const auto& [name, optimizer, step] = key;
    if (counts.size() < 2) continue;
    for (const auto& [steps, those] : counts) {
      schedules.push_back({name, optimizer, steps, step, those});
    }
  }
  return schedules;
}

std::vector<JoinedRanks> joined_in(const std::map<int, RankFacts>& facts) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> ranks;
  for (const auto& [rank, one] : facts) {
    for (const JoinedRanks& own : one.joined) ranks[{own.after, own.until}].push_back(rank);
  }
  std::vector<JoinedRanks> joined;
  for (const auto& [steps, those] : ranks) joined.push_back({those, steps.first, steps.second});
  return joined;
}

/// `member`: bytes of a rank; 0: unknown.
std::optional<PeakMemory> memory_in(const std::map<int, RankFacts>& facts,
                                    std::int64_t RankFacts::*member) {
  std::optional<PeakMemory> memory;
  for (const auto& [rank, one] : facts) {
    if (const std::int64_t bytes = one.*member; bytes > 0) {
      add_memory(PeakMemory{bytes, rank, bytes, rank}, memory);
    }
  }
  return memory;
}

/// The step after which the rows of a rank were removed first; 0: of none.
std::int64_t first_thinned(const std::map<int, RankFacts>& facts) {
  std::int64_t first = 0;
  for (const auto& [rank, one] : facts) {
    const bool is_earlier = first == 0 || one.thinned_after < first;
    if (one.thinned_after > 0 && is_earlier) first = one.thinned_after;
  }
  return first;
}

int calls_in_forward(const std::map<int, RankFacts>& facts) {
  int most = facts.empty() ? -1 : 0;
  for (const auto& [rank, one] : facts) most = most_calls(most, one.calls_in_forward);
  return most;
}

void take_writes(JobRecord& job, const std::map<int, RankFacts>& facts) {
  std::set<std::int64_t> steps;
  job.writes_known_until = facts.empty() ? 0 : facts.begin()->second.writes_known_until;
  for (const auto& [rank, one] : facts) {
    steps.insert(one.written_before.begin(), one.written_before.end());
    job.writes_known_until = std::min(job.writes_known_until, one.writes_known_until);
  }
  job.written_before = {steps.begin(), steps.end()};
}

std::vector<std::string> state_buffers_in(const std::map<int, RankFacts>& facts) {
  std::set<std::string> names;
  for (const auto& [rank, one] : facts) {
    names.insert(one.state_buffers.begin(), one.state_buffers.end());
  }
  return {names.begin(), names.end()};
}

}  // namespace

void take_bystanders(JobRecord& job, const std::map<int, RankFacts>& facts,
                     const std::map<int, DigestsOfNames>& bystanders) {
  job.bystanders.clear();
  std::map<std::pair<std::string, std::string>, std::vector<int>> holders;
  for (const auto& [rank, copies] : bystanders) {
    if (facts.contains(rank) || rank >= job.world_size) continue;  // it trained later
    job.bystanders.push_back(rank);
    for (const auto& copy : copies) holders[copy].push_back(rank);
  }
  job.copies.clear();
  for (const auto& [copy, ranks] : holders) {
    job.copies.push_back({copy.first, copy.second, ranks});
  }
}

void take_facts(JobRecord& job, const std::map<int, RankFacts>& facts) {
  job.skipped_steps = skipped_steps_in(facts);
  job.skipped_by = skipped_by_in(facts);
  take_writes(job, facts);
  job.traffic = traffic_in(facts, &RankFacts::calls);
  job.traffic_in_steps = traffic_in(facts, &RankFacts::calls_in_steps);
  job.configuration = settings_in(facts, &RankFacts::configuration);
  job.optimizers = settings_in(facts, &RankFacts::optimizers);
  job.settings_apart = settings_apart_in(facts);
  job.precisions = precisions_in(facts);
  job.groups = groups_in(facts);
  job.unreduced = unreduced_in(facts);
  job.last_calls = last_calls_in(facts);
  job.joined = joined_in(facts);
  job.untrained = untrained_in(facts);
  job.broken_ties = broken_ties_in(facts);
  job.divided_apart = divided_apart_in(facts);
  job.parameter_orders = parameter_orders_in(facts);
  job.written_by = written_by_in(facts);
  job.schedules = schedules_in(facts);
  job.devices = devices_in(facts);
  job.samplers = samplers_in(facts);
  job.frozen = frozen_in(facts);
  job.host_memory = memory_in(facts, &RankFacts::peak_bytes);
  job.device_memory = memory_in(facts, &RankFacts::peak_device_bytes);
  job.state_buffers = state_buffers_in(facts);
  job.calls_in_forward = calls_in_forward(facts);
  job.thinned_after = first_thinned(facts);
  job.straggler = straggler_in(facts);
  job.wrong_metrics = wrong_metrics_in(facts);
  job.captured_updates = 0;
  job.perturbed.reset();
  for (const auto& [rank, one] : facts) {
    job.perturbed = fewest_perturbed(job.perturbed, one.perturbed);
    job.captured_updates = std::max(job.captured_updates, one.captured_updates);
  }
}

}  // namespace lockstep
