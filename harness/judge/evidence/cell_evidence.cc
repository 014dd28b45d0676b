#include "harness/judge/evidence/cell_evidence.h"

#include <algorithm>
#include <limits>

namespace lockstep {

std::int64_t first_open_step(const CellEvidence& cell) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  if (cell.steps || !cell.evidence) return first;
  for (const RankExit& end : cell.exits) {
    if (end.kind != ExitKind::finished) {
      first = std::min(first, cell.evidence->last_step(end.rank));
    }
  }
  return first;
}

}  // namespace lockstep
