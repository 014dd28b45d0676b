#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/record/collective_log.h"
#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// Why a rank never called a collective, according to its exit.
MismatchFault absence_of(const RankExit* end);

/// Whether a rank raised because its peer was gone: it is not the one that others waited for.
bool is_victim(const CellEvidence& cell, const RankExit* end);

/// Whether any rank failed by itself, not because of its peers.
bool any_failed_by_itself(const CellEvidence& cell);

/// The missing ranks that explain a mismatch best: dead ranks before stopped ones, then finished
/// ones, then ranks in another call.
std::pair<MismatchFault, std::vector<int>> absent(const CellEvidence& cell,
                                                  const std::vector<int>& ranks);

/// The call that a rank is in outside this group, or was in when it raised. A rank that waits there
/// is not at fault here. Joining another group and point-to-point calls count; null: no such call.
const Collective* open_elsewhere(const CellEvidence& cell, int rank, const std::string& group);

}  // namespace lockstep
