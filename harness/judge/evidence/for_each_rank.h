#pragma once

#include <functional>

namespace lockstep {

/// Calls `work(rank)` for each of `ranks`, in several threads where there are many: `work` may be
/// called for two ranks at once. Rethrows what it threw for the lowest rank.
void for_each_rank(int ranks, const std::function<void(int rank)>& work);

}  // namespace lockstep
