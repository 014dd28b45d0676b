#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "harness/record/collective_log.h"

namespace lockstep {

/// The calls of one rank in one group, by number.
using Calls = std::map<std::uint64_t, const Collective*>;

/// The calls of one process group in the collective logs of all ranks.
struct Group {
  std::string name;
  int size = 0;
  std::int64_t step = 0;                 ///< in which its lowest rank joined it
  std::map<int, Calls> members;          ///< by rank; those that called the join
  std::set<int> joined;                  ///< of them, those whose rendezvous completed
  std::map<int, std::int64_t> begun_ns;  ///< when each called the join

  /// The largest call number of any rank; 0: no calls.
  std::uint64_t last() const;

  /// The lowest call number above `number` that any rank recorded; empty: none.
  std::optional<std::uint64_t> next(std::uint64_t number) const;
};

/// The groups of a cell in the order of their first appearance in the logs, starting with rank 0's
/// log. Points into `evidence`.
std::vector<Group> groups_of(const StepReader& evidence);

/// One collective of a group as its ranks called it; ranks that never called it are missing.
using Row = std::map<int, const Collective*>;

Row row_of(const Group& group, std::uint64_t number);

/// Groups ranks whose calls `is_same` considers equal, sorted by lowest rank.
template <class Same>
std::vector<std::vector<int>> classes_of(const Row& row, const Same& is_same) {
  std::vector<std::vector<int>> classes;
  for (const auto& [rank, call] : row) {
    const Collective& own = *call;  // a lambda cannot capture a structured binding
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const auto& ranks) {
      return is_same(*row.at(ranks.front()), own);
    });
    if (found == classes.end()) {
      classes.push_back({rank});
    } else {
      found->push_back(rank);
    }
  }
  return classes;
}

/// Whether two calls are compatible apart from their tensors.
bool fits(const Collective& a, const Collective& b);

/// Whether two calls may be the same collective: their known tensors do not contradict it.
bool may_meet(const Collective& a, const Collective& b);

/// Whether the name of a call's tensor is known.
bool is_named(const Collective& call);

/// Whether all ranks must pass the same tensor. In gathers and scatters each rank has its own part.
bool combines_one_tensor(const Collective& call);

/// The ranks outside the largest class; all ranks if two classes tie.
std::vector<int> minority(std::vector<std::vector<int>> classes);

/// Whether a rank makes a call after `number`, in the same step, that satisfies `is_wanted`.
template <class Wanted>
bool comes_later(const Calls& calls, std::uint64_t number, const Wanted& is_wanted) {
  const std::int64_t step = calls.at(number)->step;
  for (auto later = calls.upper_bound(number); later != calls.end(); ++later) {
    if (later->second->step != step) return false;
    if (is_wanted(*later->second)) return true;
  }
  return false;
}

/// Whether each of two ranks makes the other's call later in the step.
template <class Same>
bool is_swapped(const Group& group, std::uint64_t number, int a, int b, const Same& is_same) {
  const Calls& of_a = group.members.at(a);
  const Calls& of_b = group.members.at(b);
  const Collective& call_a = *of_a.at(number);
  const Collective& call_b = *of_b.at(number);
  return comes_later(of_b, number, [&](const Collective& c) { return is_same(c, call_a); }) &&
         comes_later(of_a, number, [&](const Collective& c) { return is_same(c, call_b); });
}

}  // namespace lockstep
