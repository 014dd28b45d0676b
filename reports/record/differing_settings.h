#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Settings that have another value on some ranks, by name: one entry per value.
std::map<std::string, std::vector<Setting>> differing_settings(const JobRecord& job);

/// The same of optimizers alone, such as "AdamW.lr": the names of others have no point.
std::map<std::string, std::vector<Setting>> differing_hyperparameters_of(const JobRecord& job);

}  // namespace lockstep
