#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace lockstep {

/// The `number`-th file, from 1, of a journal or of its sketches. A long one is written as several
/// that follow each other, so that old ones can be thinned while the rank goes on: `rank-N.csv`,
/// `rank-N.segment-2.csv`. It is `first` itself for 1.
std::filesystem::path segment_file(const std::filesystem::path& first, int number);

/// How many of these files follow each other; 0 if the first one is missing.
int count_segments(const std::filesystem::path& first);

/// Whether a step keeps its rows and sketches.
using KeepsStep = std::function<bool(std::int64_t step)>;

/// Removes the rows of the other steps from a segment of a journal that its rank has ended, and
/// says so in its header. The file is replaced as a whole. Throws Error (usage), and leaves it as
/// it was, if it cannot be read or written.
void thin_journal(const std::filesystem::path& segment, const KeepsStep& keeps);

}  // namespace lockstep
