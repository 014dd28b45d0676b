#pragma once

#include <map>
#include <vector>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Hyperparameters that ranks had with other values, each in the first such step, if that is not
/// the first of all: the configuration has those. By name, from the facts of each rank.
std::vector<SettingApart> settings_apart_in(const std::map<int, RankFacts>& facts);

}  // namespace lockstep
