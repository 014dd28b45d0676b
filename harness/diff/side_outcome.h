#pragma once

#include <functional>
#include <string>

#include "reports/record/comparison.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Fills `outcome` and `fault` of a side by the findings of its job alone. An error that only tells
/// that another rank had gone counts if there is no other. `has_tensor`: whether the job, or the
/// one that it is compared with, observed a tensor of this name; the fault has the sentence of the
/// error that names one.
void add_outcome(const JobRecord& job, const std::function<bool(const std::string&)>& has_tensor,
                 ComparedSide& side);

}  // namespace lockstep
