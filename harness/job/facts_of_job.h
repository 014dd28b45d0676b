#pragma once

#include <map>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What the ranks of a job know of themselves, put together: the same of several ranks once, with
/// these ranks. `facts`: by rank. Replaces what the job had of it.
void take_facts(JobRecord& job, const std::map<int, RankFacts>& facts);

}  // namespace lockstep
