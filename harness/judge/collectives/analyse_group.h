#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/judge/collectives/group_calls.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// A mismatch of one group, comparable with those of other groups.
struct GroupMismatch {
  CollectiveMismatch mismatch;
  /// When each rank called it, by the clock of its machine. Clocks of different machines are
  /// unrelated.
  std::map<int, std::int64_t> came_ns;
  bool is_open = false;  ///< some rank never completed it
};

/// Result for the calls of one group.
struct GroupAnalysis {
  std::int64_t compared = 0;  ///< collectives that all ranks called
  std::optional<GroupMismatch> first;
  std::optional<GroupMismatch>
      hang;           ///< the first that ranks never completed, if they completed `first`
  std::string doubt;  ///< why a mismatch cannot be ruled out; empty: it can
};

/// Compares the calls of a group in the order of their numbers. `group` belongs to the evidence of
/// the cell.
GroupAnalysis analyse_group(const CellEvidence& cell, const Group& group);

}  // namespace lockstep
