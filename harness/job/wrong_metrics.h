#pragma once

#include <map>
#include <vector>

#include "harness/job/rank_facts.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The metrics that a trainer reduced over all ranks to another value than that of what the ranks
/// have, by more than a thousandth of it: the first one of each name. None of which the facts of a
/// rank are missing.
std::vector<WrongMetric> wrong_metrics_in(const std::map<int, RankFacts>& facts);

}  // namespace lockstep
