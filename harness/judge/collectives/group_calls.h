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

/// What the collective logs of all ranks have of one process group.
struct Group {
  std::string name;
  int size = 0;
  std::int64_t step = 0;                 ///< in which the first of its ranks by number joined it
  std::map<int, Calls> members;          ///< by rank; those that came to join it
  std::set<int> joined;                  ///< of them those that met the others
  std::map<int, std::int64_t> begun_ns;  ///< when each came

  /// The number of the last call of any rank; 0: there is none.
  std::uint64_t last() const;

  /// The number of the first call behind `number` that any rank has on record; nothing: none.
  std::optional<std::uint64_t> next(std::uint64_t number) const;
};

/// The groups of a cell in the order in which logs name them, those of rank 0 first. Points into
/// `evidence`.
std::vector<Group> groups_of(const StepReader& evidence);

/// The same collective of a group, as the ranks called it that came.
using Row = std::map<int, const Collective*>;

Row row_of(const Group& group, std::uint64_t number);

/// Ranks whose calls `is_same` takes for the same, by lowest rank.
template <class Same>
std::vector<std::vector<int>> classes_of(const Row& row, const Same& is_same) {
  std::vector<std::vector<int>> classes;
  for (const auto& [rank, call] : row) {
    const Collective& own = *call;  // a lambda may not capture what a binding names
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

/// Whether two calls can meet, by all but their tensors.
bool fits(const Collective& a, const Collective& b);

/// Whether two calls may be meant to meet: nothing known of their tensors says otherwise.
bool may_meet(const Collective& a, const Collective& b);

/// Whether it is known what the tensor of a call is.
bool is_named(const Collective& call);

/// Whether ranks are to name the same tensor: where results are gathered or scattered each has its
/// own part of something.
bool combines_one_tensor(const Collective& call);

/// The ranks outside of the largest class; all of them where two are as large.
std::vector<int> minority(std::vector<std::vector<int>> classes);

/// Whether a rank calls, behind `number` and in the same step, what `is_wanted`.
template <class Wanted>
bool comes_later(const Calls& calls, std::uint64_t number, const Wanted& is_wanted) {
  const std::int64_t step = calls.at(number)->step;
  for (auto later = calls.upper_bound(number); later != calls.end(); ++later) {
    if (later->second->step != step) return false;
    if (is_wanted(*later->second)) return true;
  }
  return false;
}

/// Whether each of two ranks comes to the other's call later in the step.
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
