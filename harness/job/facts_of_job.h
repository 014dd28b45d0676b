#pragma once

#include <map>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What the ranks of a job know of themselves, put together: the same of several ranks once, with
/// these ranks. `facts`: by rank. Replaces what the job had of it.
void take_facts(JobRecord& job, const std::map<int, RankFacts>& facts);

/// Takes the ranks that trained nothing, without those that did later. `bystanders`: as
/// `bystanders_in` returns them.
void take_bystanders(JobRecord& job, const std::map<int, RankFacts>& facts,
                     const std::map<int, DigestsOfNames>& bystanders);

}  // namespace lockstep
