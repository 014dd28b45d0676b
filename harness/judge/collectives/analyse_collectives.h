#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Result of the collective logs of a cell.
struct CollectiveAnalysis {
  std::int64_t compared = 0;  ///< collectives that all ranks of their group called
  /// The first mismatch; if ranks called different operations anywhere, that one.
  std::optional<CollectiveMismatch> missed;
  /// Collectives that some rank entered and never completed.
  std::vector<CollectiveMismatch> open;
  /// Root causes of the hang: the entries of `open` that wait for no other, earliest first. If they
  /// wait for each other, one entry names all their ranks.
  std::vector<CollectiveMismatch> blocking;
  /// Why a mismatch cannot be ruled out although none was found; empty: it can.
  std::string doubt;
  /// How far the ranks were if they trained until their time limit; empty: they did not. An open
  /// collective that is not yet a hang is then no fault.
  std::string progress;
};

/// Compares the collectives of all ranks group by group, in the order of their numbers.
/// Asynchronous calls on different groups may arrive in any order. Tensors are identified by name.
/// Tied parameters may have different names, so a reduction of differently named tensors is a
/// mismatch only if all ranks have both.
CollectiveAnalysis analyse_collectives(const CellEvidence& cell);

/// Whether the program caused the mismatch. Such a mismatch is reported instead of the ranks that
/// it ended.
bool is_program_fault(const CollectiveMismatch& missed);

/// Whether a mismatch explains `end`: it ended a rank that was in the collective or waited for it.
/// Such a rank is not at fault.
bool is_explained(const CollectiveAnalysis& analysis, const RankExit& end,
                  const CellEvidence& cell);

}  // namespace lockstep
