#pragma once

#include <map>
#include <optional>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The rank that the others waited for, as the times tell at which ranks called the same
/// collectives: in three of four of 20 steps or more each for at least a quarter of a step and 2
/// ms, longer than for any other. Empty: none, or it is unknown: clocks of several machines are not
/// compared.
std::optional<Straggler> straggler_in(const std::map<int, RankFacts>& facts);

}  // namespace lockstep
