#pragma once

namespace lockstep {

/// Maximum ranks of a cell that Lockstep runs.
inline constexpr int kMostRanksOfCell = 64;

/// Maximum ranks in a record: of a watched job, or of a cell that another program ran.
inline constexpr int kMostRanksOfRecord = 4096;

}  // namespace lockstep
