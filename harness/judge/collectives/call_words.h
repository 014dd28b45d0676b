#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/collectives/group_calls.h"

namespace lockstep {

/// "collective 3 of the group world in step 2".
std::string place_in_words(const Group& group, std::uint64_t number, std::int64_t step);

/// "allreduce sum float32 [4], gradient of w at file.cc:12".
std::string call_with_site(const Collective& call);

/// The last call of a rank in a group: "the last call of rank 1 there was collective 6, broadcast
/// ..., which completed". `elsewhere`: the call it is in instead; null: none.
std::string last_act(const Group& group, int rank, const Collective* elsewhere);

/// The calls of the ranks of a row, class by class.
std::string calls_in_words(const Row& row, const std::vector<std::vector<int>>& classes);

}  // namespace lockstep
