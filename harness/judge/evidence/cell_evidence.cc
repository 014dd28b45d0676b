#include "harness/judge/evidence/cell_evidence.h"

#include <algorithm>
#include <limits>

namespace lockstep {

std::int64_t first_open_step(const CellEvidence& cell) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  if (cell.steps || !cell.evidence) return first;
  for (const RankExit& end : cell.exits) {
    if (end.kind == ExitKind::finished) continue;
    // A rank may have trained on without observing, which its exit does not show.
    first = std::min(first, std::max(cell.evidence->last_step(end.rank), end.step));
  }
  return first;
}

}  // namespace lockstep
