#pragma once

#include <optional>

#include "harness/judge/collectives/analyse_group.h"
#include "harness/judge/collectives/group_calls.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// The first collective of a group that all its ranks entered and none left, while no rank of the
/// job made progress. Calls with other roots look alike in a log without them, and so does a
/// network that is gone. Empty: there is none, or a rank is elsewhere, gone or stopped.
std::optional<GroupMismatch> stuck_together(const CellEvidence& cell, const Group& group);

}  // namespace lockstep
