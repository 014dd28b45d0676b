#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace lockstep {

/// Of ascending steps, those whose rows are read although ranks may agree in them: the first ones,
/// half of `most`, and up to about `most` evenly spaced ones, with the last.
std::set<std::int64_t> chosen_steps(const std::vector<std::int64_t>& steps, std::size_t most);

}  // namespace lockstep
