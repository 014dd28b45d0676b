#pragma once

namespace lockstep {

/// Ranks of the largest cell that is run.
inline constexpr int kMostRanksOfCell = 64;

/// Ranks of the largest world that a record holds: of a watched job, or of a cell that another
/// program ran.
inline constexpr int kMostRanksOfRecord = 4096;

}  // namespace lockstep
