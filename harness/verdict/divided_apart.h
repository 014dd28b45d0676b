#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// "initial weights differed between ranks (4 of 6, such as 0.weight) when fully_shard divided
/// them, at train.py:12: ..."; empty: they did not, as far as known. It is no fault: weights that
/// are drawn at random may be another rank's.
std::string divided_apart_in_words(const JobRecord& job);

}  // namespace lockstep
