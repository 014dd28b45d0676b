#pragma once

#include <functional>

namespace lockstep {

/// Calls `work(rank)` for each of `ranks`, using several threads if there are many. So `work` may
/// run for two ranks at once. Rethrows the exception of the lowest rank.
void for_each_rank(int ranks, const std::function<void(int rank)>& work);

}  // namespace lockstep
