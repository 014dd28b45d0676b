#include "harness/judge/collectives/group_calls.h"

#include <utility>

#include "harness/record/collective_words.h"

namespace lockstep {

namespace {

/// `places` maps a name to its index in `groups`.
Group& group_called(const Collective& call, std::vector<Group>& groups,
                    std::map<std::string, std::size_t>& places) {
  const auto [place, is_new] = places.emplace(call.group, groups.size());
  if (!is_new) return groups[place->second];
  Group& group = groups.emplace_back();
  group.name = call.group;
  group.size = call.group_size;
  group.step = call.step;
  return group;
}

/// Whether both are known to have the same tensor, or one tensor is unknown.
bool may_be_on_same(const Collective& a, const Collective& b) {
  const bool is_known = is_named(a) && is_named(b) && combines_one_tensor(a);
  return !is_known || a.tensor_id == b.tensor_id;
}

}  // namespace

std::uint64_t Group::last() const {
  std::uint64_t number = 0;
  for (const auto& [rank, calls] : members) {
    if (!calls.empty()) number = std::max(number, calls.rbegin()->first);
  }
  return number;
}

std::optional<std::uint64_t> Group::next(std::uint64_t number) const {
  std::optional<std::uint64_t> first;
  for (const auto& [rank, calls] : members) {
    const auto call = calls.upper_bound(number);
    if (call != calls.end() && (!first || call->first < *first)) first = call->first;
  }
  return first;
}

std::vector<Group> groups_of(const StepReader& evidence) {
  std::vector<Group> groups;
  std::map<std::string, std::size_t> places;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::vector<Collective>* log = evidence.collectives(rank);
    if (!log) continue;
    for (const Collective& call : *log) {
      Group& group = group_called(call, groups, places);
      Calls& calls = group.members[rank];
      if (call.number > 0) calls[call.number] = &call;
      group.begun_ns.emplace(rank, call.entered_ns);
      const bool has_met = call.operation == kJoin && call.state == CollectiveState::completed;
      if (has_met) group.joined.insert(rank);
    }
  }
  return groups;
}

Row row_of(const Group& group, std::uint64_t number) {
  Row row;
  for (const auto& [rank, calls] : group.members) {
    const auto call = calls.find(number);
    if (call != calls.end()) row[rank] = call->second;
  }
  return row;
}

bool fits(const Collective& a, const Collective& b) { return !difference(a, b); }

bool is_named(const Collective& call) { return call.tensor_id != 0; }

bool combines_one_tensor(const Collective& call) {
  return call.operation.starts_with("allreduce") || call.operation == "reduce" ||
         call.operation == "broadcast";
}

bool may_meet(const Collective& a, const Collective& b) {
  return fits(a, b) && may_be_on_same(a, b);
}

std::vector<int> minority(std::vector<std::vector<int>> classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const bool is_tie = classes.size() > 1 && classes[0].size() == classes[1].size();
  std::vector<int> ranks;
  for (std::size_t i = is_tie ? 0 : 1; i < classes.size(); ++i) {
    ranks.insert(ranks.end(), classes[i].begin(), classes[i].end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace lockstep
