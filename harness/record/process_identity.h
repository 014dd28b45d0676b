#pragma once

#include <string>

#include "reports/record/cell.h"

namespace lockstep {

/// Says which process of which cell wrote a file: "rank 1 of loss-on-unwrapped-module/bypass/w2
/// with seed 0 and 5 steps". Process 0 of a reference is "the reference", the others are
/// "perturbed reference 1" to 4. One line of at most `kLongestProcessIdentity` bytes, cut where it
/// is longer; it is in the first line of a journal, in the metadata of snapshots and in the
/// header of a collective log.
std::string process_identity(const Cell& cell, int process);

}  // namespace lockstep
