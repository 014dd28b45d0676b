#pragma once

#include <cstdint>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Waiting counts as a hang only if it took this fraction of the rank's time from its first call to
/// its end. A rank that waited for less time than it trained may be waiting for a slow peer.
/// ExitCause::no_progress needs no such test, because the supervisor saw no progress for the limit.
inline constexpr double kFairPart = 0.5;

/// Waiting must also take this fraction of the time limit, since a rank with a late first call had
/// little time.
inline constexpr double kLeastPartOfLimit = 0.25;

/// Whether a rank was ended at its time limit, at a known time.
bool is_late(const RankExit& end);

/// Whether a wait that began at `since_ns`, by the rank's clock, lasted long enough until a late
/// rank's end to be a hang.
bool is_long_ago(const CellEvidence& cell, const RankExit& end, std::int64_t since_ns);

/// Whether a late rank neither began a step nor entered or left a collective for that long.
bool is_stuck(const CellEvidence& cell, const RankExit& end);

/// Whether ranks trained until their time limit: no rank failed in another way, and at least one
/// was not stuck.
bool was_training(const CellEvidence& cell);

/// For ranks that trained until their limit: "still making progress at the limit of 2 s, step 209
/// of 200000: raise --timeout". Empty for others.
std::string progress_in_words(const CellEvidence& cell);

}  // namespace lockstep
