#pragma once

#include <map>
#include <optional>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The rank that the others waited for, as their calls of the same collectives tell: in at least
/// three of four of 20 steps or more, for at least a fifth of the time of these and 2 ms a step,
/// and at least four times as long as for all others. Empty: none, or it is unknown: clocks of
/// several machines are not compared.
std::optional<Straggler> straggler_in(const std::map<int, RankFacts>& facts);

}  // namespace lockstep
