#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// What the lowest bar of a sparkline stands for.
enum class Baseline { zero, smallest };

/// `values` as a row of blocks of UTF-8, at most `most` of them: of more, some of them evenly,
/// with the first and the last. The highest block is the largest value; zero is `·`, what is not
/// measured `-`, and what is infinite `!`.
std::string sparkline(const std::vector<double>& values, std::size_t most, Baseline baseline);

/// Indices of `count` things, at most `most` (>= 2) of them: evenly, with the first and the last.
std::vector<std::size_t> thinned(std::size_t count, std::size_t most);

}  // namespace lockstep
