#pragma once

#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

bool is_among(const std::vector<int>& ranks, int rank);

/// How a rank ended; null where that is not known.
const RankExit* exit_of(const CellEvidence& cell, int rank);

/// Whether a rank raised because a peer was gone: its cause says so, and by its collective log,
/// where it has any entry, it was in a call. A loader of data loses connections in the same words.
bool has_lost_peer(const CellEvidence& cell, const RankExit& end);

/// The ranks that ended badly, by rank, without those whose end is a consequence of another's.
/// Empty only where none ended badly, or all were ended at their limit while they trained. Points
/// into the case.
std::vector<const RankExit*> culprits(const CellEvidence& cell);

/// What a framework says before it explains at length: up to the end of the first line or sentence,
/// without where it was raised. An error for want of memory is told to the end of the line.
std::string first_sentence(const std::string& text);

}  // namespace lockstep
