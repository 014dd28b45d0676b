#pragma once

#include <optional>
#include <string>

#include "harness/plan/selection.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

/// Whether the scenario can train on devices of that kind.
bool runs_on(const Scenario& scenario, DeviceKind device);

/// The scenario's expectation of the cell. Not applicable if the scenario lacks its world size,
/// backend, device or axis values, if the machine has too few GPUs, or if its reference is not
/// applicable.
Expectation expectation_of(const Scenario& scenario, const Cell& cell,
                           const std::optional<GpusHere>& gpus);

}  // namespace lockstep
