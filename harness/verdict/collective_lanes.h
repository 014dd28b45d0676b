#pragma once

#include <optional>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/charts.h"
#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// The calls of the ranks around the first mismatch; without one, the last calls of the largest
/// group.
CollectiveLanes collective_lanes_of(const StepReader& evidence,
                                    const std::optional<CollectiveMismatch>& mismatch);

}  // namespace lockstep
