#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// The value of the lowest bar of a sparkline.
enum class Baseline { zero, smallest };

/// `values` as a row of UTF-8 blocks. Beyond `most` values, some are shown, evenly, including the
/// first and the last. The highest block is the largest value; zero is `·`, not measured `-`, and
/// infinite `!`.
std::string sparkline(const std::vector<double>& values, std::size_t most, Baseline baseline);

/// At most `most` (>= 2) of `count` indices: evenly, including the first and the last.
std::vector<std::size_t> thinned(std::size_t count, std::size_t most);

}  // namespace lockstep
