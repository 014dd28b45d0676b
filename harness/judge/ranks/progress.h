#pragma once

#include <cstdint>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// A hang is one only where it took this part of the time that a rank had, from its first call to
/// its end: whoever has waited for less than it had trained may be waiting for a slow peer. A
/// supervisor that saw no rank come further for the limit (ExitCause::no_progress) has asked that.
inline constexpr double kFairPart = 0.5;

/// And this part of the time limit: who came late to its first call has had little time.
inline constexpr double kLeastPartOfLimit = 0.25;

/// Whether a rank was ended at its time limit, and it is known when.
bool is_late(const RankExit& end);

/// Whether `since_ns`, by the clock of the rank, was long enough before a late rank's end for what
/// began then to be a hang.
bool is_long_ago(const CellEvidence& cell, const RankExit& end, std::int64_t since_ns);

/// Whether a late rank neither began a step nor entered or left a collective for that long.
bool is_stuck(const CellEvidence& cell, const RankExit& end);

/// Whether ranks trained until they were ended at their limit: no rank ended badly in another way,
/// and one of them was not stuck.
bool was_training(const CellEvidence& cell);

/// Of ranks that trained until then: "still making progress at the limit of 2 s, step 209 of
/// 200000: raise --timeout". Empty for others.
std::string progress_in_words(const CellEvidence& cell);

}  // namespace lockstep
