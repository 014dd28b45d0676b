#pragma once

#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

bool is_among(const std::vector<int>& ranks, int rank);

/// Exit of a rank; null if unknown.
const RankExit* exit_of(const std::vector<RankExit>& exits, int rank);

/// Whether a rank raised because a peer was gone. The exit's cause must say so. If its collective
/// log has entries, the rank must also have been in a call: data loaders lose connections with the
/// same messages.
bool has_lost_peer(const CellEvidence& cell, const RankExit& end);

/// The ranks that failed, in rank order, except those whose failure follows from another rank's.
/// Empty only if none failed, or if all were ended at their limit while training. Points into the
/// cell's evidence.
std::vector<const RankExit*> culprits(const CellEvidence& cell);

/// The rank of a job that left the others: it finished, and every rank that failed lost a peer
/// later or in the same step. Of several the one that finished first. Null if there is none.
const RankExit* leaver(const CellEvidence& cell);

/// The first line or sentence of a framework's error, without the source location. The error of a
/// failed allocation is kept to the end of the line.
std::string first_sentence(const std::string& text);

/// The same of a job, after the sentence that names something of its model, if another one does:
/// "RuntimeError: Parameter at index 1 with name layers.0.weight has been marked as ready twice.
/// Expected to mark a variable ready only once." What has points in it, and is no file, number or
/// part of a library, is taken for such a name, since an error before the first step comes before
/// all names are known. Of an error that was caught elsewhere, as by a data loader's worker, its
/// own: "KeyError: 'image', in DataLoader worker process 1".
std::string telling_sentences(const std::string& text);

}  // namespace lockstep
