#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/judge/judge.h"

namespace lockstep {

/// What the collective logs of a case say of the ranks' meetings.
struct Meetings {
  std::int64_t compared = 0;            ///< collectives that all ranks of their group called
  std::optional<MissedMeeting> missed;  ///< the first that they did not meet in
  /// When ranks came to it, by the clocks of their machines, which have nothing in common.
  std::map<int, std::int64_t> came_ns;
  /// The one that ranks did not come out of, where they went on from the first.
  std::optional<MissedMeeting> hang;
  /// Why it is not known whether they met although none was missed; empty: it is known.
  std::string doubt;
};

/// Holds the collectives of all ranks against each other, group by group, in the order of their
/// numbers. Asynchronous calls on different groups may come in any order. A tensor is known by what
/// it is called: where ranks reduce differently called tensors with each other it is a mismatch
/// only if all have both of them, since tied parameters may have different names.
Meetings meetings_of(const Case& the_case);

/// Whether `end` is how the missed meeting ended a rank that was in it or waited for it: no fault
/// of its own.
bool is_explained(const MissedMeeting& missed, const RankEnd& end, const Case& the_case);

}  // namespace lockstep
