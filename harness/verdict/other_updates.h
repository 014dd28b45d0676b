#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// "AdamW" of "AdamW group 1.lr".
std::string optimizer_of(const std::string& setting);

/// The hyperparameters that ranks have otherwise from `step` on, by name.
std::map<std::string, std::vector<Setting>> other_settings(const JobRecord& job, std::int64_t step);

/// The same as a cause: "AdamW.lr is 0.001 on rank 0 and 0.002 on rank 1, of the optimizer made at
/// train.py:40", and how often its scheduler was stepped; empty: there are none.
std::string other_settings_in_words(const JobRecord& job, std::int64_t step);

/// The ranks on which a gradient scaler skipped a step, ascending.
std::vector<int> ranks_that_skipped(const JobRecord& job, std::int64_t step);

/// "a gradient scaler skipped the step on rank 1 alone"; empty: all did, or none.
std::string skipped_in_words(const JobRecord& job, std::int64_t step);

}  // namespace lockstep
