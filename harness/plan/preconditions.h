#pragma once

#include <optional>
#include <string>

#include "harness/plan/selection.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

/// Whether the scenario can train on devices of that kind.
bool runs_on(const Scenario& scenario, const std::string& device);

/// What the scenario expects of the cell. Not applicable where its world size, backend, device or
/// axis values are none of the scenario's, or the machine has too few GPUs.
Expectation expectation_of(const Scenario& scenario, const Cell& cell,
                           const std::optional<GpusHere>& gpus);

}  // namespace lockstep
