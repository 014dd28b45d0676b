#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/judge/collectives/group_calls.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// A mismatch, as it compares to those of other groups.
struct GroupMismatch {
  CollectiveMismatch mismatch;
  /// When ranks came to it, by the clocks of their machines, which have nothing in common.
  std::map<int, std::int64_t> came_ns;
  bool is_open = false;  ///< ranks did not come out of it
};

/// How the ranks of one group met.
struct GroupAnalysis {
  std::int64_t compared = 0;           ///< collectives that all ranks called
  std::optional<GroupMismatch> first;  ///< the first mismatch
  std::optional<GroupMismatch>
      hang;           ///< that ranks did not come out of, where they did of the first
  std::string doubt;  ///< why it is not known whether they met; empty: it is
};

/// Holds the calls of a group against each other, in the order of their numbers. `group` is of the
/// evidence of the case.
GroupAnalysis analyse_group(const CellEvidence& cell, const Group& group);

/// What a rank is in beside the collectives of a group, or was when it raised: who waits there is
/// not at fault here. Joining another group and point-to-point calls count; null: it is in nothing
/// else.
const Collective* open_elsewhere(const CellEvidence& cell, int rank, const std::string& group);

}  // namespace lockstep
